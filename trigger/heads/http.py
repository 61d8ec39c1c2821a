"""HTTP for REST catalogs: bounded GET and POST requests."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import unquote, urlencode, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

from icemirror.errors import BadConfig

_TIMEOUT_SECONDS = 10.0
_MAX_BYTES = 64 << 20
_MAX_REDIRECTS = 10
MAX_CONCURRENT_REQUESTS = 8
"""Requests that are sent at the same time."""
_NOT_MODIFIED = 304
_REDIRECTS = (301, 302, 303, 307, 308)


class HttpError(Exception):
    """The request failed; `status` is 0 if there was no response."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}" if status else reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class CatalogResponse:
    """The response to a request."""

    status: int
    body: bytes
    etag: str | None = None

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object; its values have any type."""
        try:
            value = json.loads(self.body)
        except ValueError:
            raise HttpError(self.status, "with a body that is not JSON") from None
        if not isinstance(value, dict):
            raise HttpError(self.status, "with a body that is not a JSON object")
        return value


def send_request(
    address: str, headers: Mapping[str, str], form: Mapping[str, str] | None = None
) -> CatalogResponse:
    """Return the response to a GET, or to a POST if there is a form.

    A GET follows redirects, but not to another origin, which would receive the token.
    """
    body = None if form is None else urlencode(form)
    request_headers = {"Accept": "application/json", "Connection": "close", **headers}
    if form is not None:
        request_headers["Content-Type"] = "application/x-www-form-urlencoded"
    for _ in range(_MAX_REDIRECTS):
        response = _send_once(address, request_headers, body)
        if isinstance(response, CatalogResponse):
            return response
        if form is not None or _origin(response.location) != _origin(address):
            raise HttpError(response.status, "a redirect to another origin, which is not followed")
        address = response.location
    raise HttpError(0, f"more than {_MAX_REDIRECTS} redirects")


@dataclass(frozen=True, slots=True)
class _Redirect:
    status: int
    location: str


def _send_once(address: str, headers: Mapping[str, str], body: str | None) -> CatalogResponse | _Redirect:
    if urlsplit(address).scheme not in ("http", "https"):
        raise BadConfig("the uri of a REST catalog starts with http:// or https://")
    method = "GET" if body is None else "POST"
    try:
        with _open_pool(_find_proxy(address)).request(
            method, address, body=body, headers=headers, redirect=False, preload_content=False
        ) as response:
            if response.status == _NOT_MODIFIED:
                return CatalogResponse(_NOT_MODIFIED, b"{}")
            if response.status in _REDIRECTS and "Location" in response.headers:
                return _Redirect(response.status, urljoin(address, response.headers["Location"]))
            if not 200 <= response.status < 300:
                raise HttpError(response.status, response.reason or "")
            content = response.read(_MAX_BYTES + 1, decode_content=True)
            if len(content) > _MAX_BYTES:
                raise HttpError(response.status, f"with more than {_MAX_BYTES >> 20} MB")
            return CatalogResponse(response.status, content, response.headers.get("ETag"))
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise HttpError(0, str(error.__cause__ or error) or type(error).__name__) from None


def _origin(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme, parts.netloc


def _find_proxy(address: str) -> str | None:
    """Return the proxy that the environment names for an address."""
    parts = urlsplit(address)
    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.netloc):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


@cache
def _open_pool(proxy: str | None) -> urllib3.PoolManager:
    # No connection is kept (`Connection: close`): it may die unnoticed while a Lambda function is frozen.
    options: dict[str, Any] = {  # Any: arguments of several types
        "retries": False,
        "timeout": _TIMEOUT_SECONDS,
        "maxsize": MAX_CONCURRENT_REQUESTS,
        "ssl_context": ssl.create_default_context(),
    }
    if proxy is None:
        return urllib3.PoolManager(**options)
    parts = urlsplit(proxy)
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    return urllib3.ProxyManager(proxy, proxy_headers=urllib3.make_headers(proxy_basic_auth=login), **options)
