"""Heads of a REST catalog: `loadTable` with as few snapshots as possible, and not again while it is unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from icemirror.errors import Invalid, Transient
from icemirror.tables.table_id import TableId
from trigger.heads.catalog_auth import CatalogAuth
from trigger.heads.head_source import HeadResult, missing_changelog
from trigger.heads.http import MAX_CONCURRENT_REQUESTS, CatalogResponse, HttpError, send_request

_LEVEL_SEPARATOR = "\x1f"  # between the levels of a namespace, in a path
_NOT_MODIFIED, _NOT_FOUND = 304, 404
_REFUSED = (401, 403)


@dataclass(frozen=True, slots=True)
class _CachedHead:
    etag: str
    location: str


class RestHeads:
    """Loads table by table, a few at the same time."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self._auth = CatalogAuth(properties)
        self._merged_properties: dict[str, str] | None = None
        self._cached_heads: dict[TableId, _CachedHead] = {}
        self._pool = ThreadPoolExecutor(MAX_CONCURRENT_REQUESTS, thread_name_prefix="heads")

    def load_heads(self, tables: Sequence[TableId]) -> dict[TableId, HeadResult]:
        """Return the heads; a missing table does not hide the others."""
        self._load_properties()
        return dict(zip(tables, self._pool.map(self._load_head, tables), strict=True))

    def list_tables(self, namespace: str) -> tuple[str, ...]:
        """Return the names of the tables in a namespace, read page by page."""
        names: list[str] = []
        page_token, requested_tokens = "", set[str]()
        while True:
            parameters = {"pageToken": page_token, "pageSize": "500"}
            address = f"{self._address(namespace.split('.'))}/tables?{urlencode(parameters)}"
            response = self._get(address, f"the namespace {namespace}")
            if response is None:
                return ()
            try:
                content = response.json()
                names += [str(table["name"]) for table in content.get("identifiers", [])]
            except (HttpError, KeyError, TypeError) as error:
                raise Transient(f"the REST catalog's list of {namespace} cannot be read: {error}") from error
            requested_tokens.add(page_token)
            page_token = str(content.get("next-page-token") or "")
            if not page_token or page_token in requested_tokens:
                return tuple(sorted(names))

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _load_head(self, table: TableId) -> HeadResult:
        cached = self._cached_heads.get(table)
        address = f"{self._address(table.namespace)}/tables/{quote(table.name, safe='')}?snapshots=refs"
        try:
            response = self._get(address, f"the changelog {table}", cached.etag if cached else None)
        except (Invalid, Transient) as error:  # which may concern this table alone
            return error
        if response is None:
            return missing_changelog(table, "the REST catalog")
        if response.status == _NOT_MODIFIED and cached:
            return cached.location
        try:
            location = response.json().get("metadata-location")
        except HttpError as error:
            return Transient(f"the REST catalog's response for the changelog {table} cannot be read: {error}")
        if not location:
            return Invalid(f"the REST catalog gave no metadata-location for the changelog {table}")
        if response.etag:
            self._cached_heads[table] = _CachedHead(response.etag, location)
        return str(location)

    def _load_properties(self) -> dict[str, str]:
        """Return the configured properties with the catalog's defaults and overrides, which are requested once."""
        if self._merged_properties is None:
            warehouse = self._properties.get("warehouse")
            query = f"?{urlencode({'warehouse': warehouse})}" if warehouse else ""
            response = self._get(
                f"{self._properties['uri'].rstrip('/')}/v1/config{query}", "its configuration"
            )
            config = {} if response is None else response.json()
            self._merged_properties = {
                **config.get("defaults", {}),
                **self._properties,
                **config.get("overrides", {}),
            }
        return self._merged_properties

    def _address(self, namespace: Sequence[str]) -> str:
        properties = self._load_properties()
        levels = quote(properties.get("namespace-separator", _LEVEL_SEPARATOR).join(namespace), safe="")
        prefix = f"/{properties['prefix'].strip('/')}" if properties.get("prefix") else ""
        return f"{properties['uri'].rstrip('/')}/v1{prefix}/namespaces/{levels}"

    def _get(self, address: str, subject: str, etag: str | None = None) -> CatalogResponse | None:
        """Return the response; None if the catalog does not have it."""
        try:
            return self._send_with_renewal(address, {"If-None-Match": etag} if etag else {})
        except HttpError as error:
            if error.status == _NOT_FOUND:
                return None
            if error.status in _REFUSED:
                message = (
                    f"the REST catalog denied access to {subject} ({error.status}): check token or credential"
                )
                raise Invalid(message) from error
            raise Transient(
                f"the REST catalog did not respond to a request for {subject}: {error}"
            ) from error

    def _send_with_renewal(self, address: str, headers: Mapping[str, str]) -> CatalogResponse:
        """Return the response; if the token is refused and can be renewed, that of a second request."""
        try:
            return send_request(address, {**self._auth.headers(), **headers})
        except HttpError as error:
            if error.status not in _REFUSED or not self._auth.renew():
                raise
        return send_request(address, {**self._auth.headers(), **headers})
