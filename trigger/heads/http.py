"""HTTP as far as a REST catalog's heads need it: GET, a bearer token, and where that token comes from."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from icemirror.errors import BadConfig

_TIMEOUT_SECONDS = 10.0
_LARGEST_BYTES = 64 << 20
_NOT_MODIFIED = 304
_HEADER = "header."


class HttpError(Exception):
    """No answer, or not the one asked for; `status` is 0 where there was none."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}" if status else reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    body: bytes
    etag: str | None = None

    def json(self) -> dict[str, Any]:
        """The body as a JSON object; its values are of any type."""
        try:
            value = json.loads(self.body)
        except ValueError:
            raise HttpError(self.status, "and a body that is no JSON") from None
        if not isinstance(value, dict):
            raise HttpError(self.status, "and a body that is no JSON object")
        return value


class _SameOrigin(HTTPRedirectHandler):
    """Follows a redirect only to where the token belongs."""

    def redirect_request(
        self,
        req: Request,
        fp: Any,  # noqa: ANN401 (urllib's own)
        code: int,
        msg: str,
        headers: Any,  # noqa: ANN401 (urllib's own)
        newurl: str,
    ) -> Request | None:
        """None where it leads elsewhere: then the redirect itself is the answer, and an error."""
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if (before.scheme, before.netloc) != (after.scheme, after.netloc):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = build_opener(_SameOrigin)


def request(address: str, headers: Mapping[str, str], form: Mapping[str, str] | None = None) -> Answer:
    """GET, or POST of a form."""
    if urlsplit(address).scheme not in ("http", "https"):
        raise BadConfig("the uri of a REST catalog begins with http:// or https://")
    data = None if form is None else urlencode(form).encode()
    asked = Request(address, data, {"Accept": "application/json", **headers})  # noqa: S310 (checked above)
    try:
        with _OPENER.open(asked, timeout=_TIMEOUT_SECONDS) as answer:
            body = answer.read(_LARGEST_BYTES + 1)
            if len(body) > _LARGEST_BYTES:
                raise HttpError(answer.status, f"and more than {_LARGEST_BYTES >> 20} MB")
            return Answer(answer.status, body, answer.headers.get("ETag"))
    except HTTPError as error:
        with error:
            if error.code == _NOT_MODIFIED:
                return Answer(_NOT_MODIFIED, b"{}")
            raise HttpError(error.code, error.reason) from None
    except (URLError, OSError, HTTPException) as error:
        raise HttpError(0, str(getattr(error, "reason", error)) or type(error).__name__) from None


class Authority:
    """The headers that a REST catalog wants: those configured, and a token, given or fetched by OAuth2."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._headers = {
            name.removeprefix(_HEADER): value
            for name, value in properties.items()
            if name.startswith(_HEADER)
        }
        self._token = properties.get("token")
        self._lock = threading.Lock()

    def headers(self) -> dict[str, str]:
        """The headers of a request."""
        with self._lock:
            if self._token is None and "credential" in self._properties:
                self._token = self._fetch_token()
            token = self._token
        return self._headers if token is None else {**self._headers, "Authorization": f"Bearer {token}"}

    def renew(self) -> bool:
        """Forgets a token that was refused; whether there is a way to get another."""
        with self._lock:
            if "credential" not in self._properties:
                return False
            self._token = None
            return True

    def _fetch_token(self) -> str:
        """OAuth2 client credentials, as REST catalogs speak it."""
        properties = self._properties
        client, _, secret = properties["credential"].rpartition(":")
        address = properties.get("oauth2-server-uri") or f"{properties['uri'].rstrip('/')}/v1/oauth/tokens"
        form = {
            "grant_type": "client_credentials",
            "client_id": client,
            "client_secret": secret,
            "scope": properties.get("scope", "catalog"),
        }
        form |= {name: properties[name] for name in ("audience", "resource") if name in properties}
        form = {name: value for name, value in form.items() if value}
        token = request(address, self._headers, form).json().get("access_token")
        if not token:
            raise HttpError(0, "the OAuth2 server gave no access_token")
        return str(token)
