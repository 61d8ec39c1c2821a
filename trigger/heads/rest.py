"""Head pointers of an Iceberg REST catalog, over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from icemirror.errors import BadConfig, Invalid, Transient
from icemirror.table_id import TableId

_TIMEOUT_SECONDS = 20
_LARGEST_ANSWER = 64 << 20
_LEVELS = "\x1f"  # how the REST specification joins the levels of a namespace
_NOT_FOUND, _REFUSED = 404, (401, 403)
_TOKEN_MARGIN_SECONDS = 60.0


@dataclass
class _Token:
    value: str | None
    good_until: float


class RestHeads:
    """`loadTable` and `listTables`, with a bearer token or OAuth2 client credentials."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._base = properties.get("uri", "").rstrip("/")
        if not self._base.startswith(("http://", "https://")):
            raise BadConfig("a REST catalog needs a uri that begins with http:// or https://")
        self._prefix: str | None = None
        self._token = _Token(properties.get("token"), float("inf") if "token" in properties else 0.0)

    def head(self, table: TableId) -> str | None:
        """The location of the table's current metadata."""
        namespace = quote(_LEVELS.join(table.namespace), safe="")
        answer = self._get(f"namespaces/{namespace}/tables/{quote(table.name, safe='')}?snapshots=refs")
        return None if answer is None else str(answer.get("metadata-location"))

    def list_tables(self, namespace: str) -> list[str]:
        """The tables of a namespace, page by page."""
        path = f"namespaces/{quote(_LEVELS.join(namespace.split('.')), safe='')}/tables"
        names: list[str] = []
        page: str | None = None
        while True:
            answer = self._get(path + (f"?{urlencode({'pageToken': page})}" if page else ""))
            if answer is None:
                return names
            names.extend(str(found["name"]) for found in answer.get("identifiers", ()))
            page = answer.get("next-page-token")
            if not page:
                return names

    def _get(self, path: str) -> dict[str, Any] | None:
        if self._prefix is None:
            warehouse = (
                {"warehouse": self._properties["warehouse"]} if "warehouse" in self._properties else {}
            )
            config = self._call(f"{self._base}/v1/config?{urlencode(warehouse)}") or {}
            merged = {**config.get("defaults", {}), **self._properties, **config.get("overrides", {})}
            self._prefix = f"{merged['prefix']}/" if merged.get("prefix") else ""
        return self._call(f"{self._base}/v1/{self._prefix}{path}")

    def _call(self, address: str, form: Mapping[str, str] | None = None) -> dict[str, Any] | None:
        headers = {"Accept": "application/json"}
        if form is None and (token := self._bearer()):
            headers["Authorization"] = f"Bearer {token}"
        body = urlencode(form).encode() if form is not None else None
        request = Request(address, data=body, headers=headers)  # noqa: S310 (http and https only, see __init__)
        try:
            with urlopen(request, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310
                answer = json.loads(response.read(_LARGEST_ANSWER))
        except HTTPError as error:
            if error.code == _NOT_FOUND and form is None:
                return None
            if error.code in _REFUSED:
                raise Invalid(f"catalog {self._base}: refused the credentials ({error.code})") from error
            raise Transient(f"catalog {self._base}: answered {error.code} {error.reason}") from error
        except (URLError, TimeoutError, OSError) as error:
            raise Transient(f"catalog {self._base}: cannot be reached: {error}") from error
        except ValueError as error:
            raise Transient(f"catalog {self._base}: did not answer with JSON") from error
        if not isinstance(answer, dict):
            raise Transient(f"catalog {self._base}: did not answer with a JSON object")
        return answer

    def _bearer(self) -> str | None:
        credential = self._properties.get("credential")
        if credential is None or time.monotonic() < self._token.good_until:
            return self._token.value
        client, _, secret = credential.rpartition(":")
        address = self._properties.get("oauth2-server-uri", f"{self._base}/v1/oauth/tokens")
        form = {
            "grant_type": "client_credentials",
            "client_id": client,
            "client_secret": secret,
            "scope": self._properties.get("scope", "catalog"),
        }
        answer = self._call(address, form) or {}
        lifetime = float(answer.get("expires_in", 3600))
        self._token = _Token(answer.get("access_token"), time.monotonic() + lifetime - _TOKEN_MARGIN_SECONDS)
        return self._token.value
