"""Authentication at REST catalogs: configured headers, a bearer token, and OAuth2 client credentials for the token."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from trigger.heads.http import HttpError, send_request

_HEADER_PREFIX = "header."


class CatalogAuth:
    """The headers of a REST catalog's requests: configured ones, and a token, configured or fetched by OAuth2."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._headers = {
            name.removeprefix(_HEADER_PREFIX): value
            for name, value in properties.items()
            if name.startswith(_HEADER_PREFIX)
        }
        self._token = properties.get("token")
        self._lock = threading.Lock()

    def headers(self) -> dict[str, str]:
        """Return the headers of a request; fetch a token first if there is none."""
        with self._lock:
            if self._token is None and "credential" in self._properties:
                self._token = self._fetch_token()
            token = self._token
        return self._headers if token is None else {**self._headers, "Authorization": f"Bearer {token}"}

    def renew(self) -> bool:
        """Forget a token that was refused. Return whether another one can be fetched."""
        with self._lock:
            if "credential" not in self._properties:
                return False
            self._token = None
            return True

    def _fetch_token(self) -> str:
        """Return a new token for OAuth2 client credentials, as REST catalogs define it."""
        properties = self._properties
        client_id, _, secret = properties["credential"].rpartition(":")
        address = properties.get("oauth2-server-uri") or f"{properties['uri'].rstrip('/')}/v1/oauth/tokens"
        form = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": secret,
            "scope": properties.get("scope", "catalog"),
        }
        form |= {name: properties[name] for name in ("audience", "resource") if name in properties}
        form = {name: value for name, value in form.items() if value}
        token = send_request(address, self._headers, form).json().get("access_token")
        if not token:
            raise HttpError(0, "the OAuth2 server returned no access_token")
        return str(token)
