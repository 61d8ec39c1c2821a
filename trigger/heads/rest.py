"""Heads from a REST catalog: `loadTable` with the fewest possible snapshots, and not again while it is the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from icemirror.errors import Invalid, Transient
from icemirror.table_id import TableId
from trigger.heads.http import Answer, Authority, HttpError, request
from trigger.heads.source import Head, missing

_LEVELS = "\x1f"  # between the levels of a namespace, in an address
_AT_ONCE = 8
_NOT_MODIFIED, _NOT_FOUND = 304, 404
_REFUSED = (401, 403)


@dataclass(frozen=True, slots=True)
class _Seen:
    etag: str
    location: str


class RestHeads:
    """Asks table by table, a few at a time."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._given = dict(properties)
        self._authority = Authority(properties)
        self._configured: dict[str, str] | None = None
        self._seen: dict[TableId, _Seen] = {}
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="heads")

    def look(self, tables: Sequence[TableId]) -> dict[TableId, Head]:
        """The heads; one missing table does not hide the others."""
        self._configuration()
        return dict(zip(tables, self._pool.map(self._head, tables), strict=True))

    def list_tables(self, namespace: str) -> tuple[str, ...]:
        """The names of the tables in a namespace, page by page."""
        names: list[str] = []
        page, asked = "", set[str]()
        while True:
            parameters = {"pageToken": page, "pageSize": "500"}
            address = f"{self._address(namespace.split('.'))}/tables?{urlencode(parameters)}"
            answer = self._get(address, f"the namespace {namespace}")
            if answer is None:
                return ()
            try:
                said = answer.json()
                names += [str(table["name"]) for table in said.get("identifiers", [])]
            except (HttpError, KeyError, TypeError) as error:
                raise Transient(f"the REST catalog's list of {namespace} cannot be read: {error}") from error
            asked.add(page)
            page = str(said.get("next-page-token") or "")
            if not page or page in asked:
                return tuple(sorted(names))

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _head(self, table: TableId) -> Head:
        seen = self._seen.get(table)
        address = f"{self._address(table.namespace)}/tables/{quote(table.name, safe='')}?snapshots=refs"
        try:
            answer = self._get(address, f"the changelog {table}", seen.etag if seen else None)
        except (Invalid, Transient) as error:  # of this table alone, as far as anybody knows
            return error
        if answer is None:
            return missing(table, "the REST catalog")
        if answer.status == _NOT_MODIFIED and seen:
            return seen.location
        try:
            location = answer.json().get("metadata-location")
        except HttpError as error:
            return Transient(f"the REST catalog's answer for the changelog {table} cannot be read: {error}")
        if not location:
            return Invalid(f"the REST catalog gave no metadata-location for the changelog {table}")
        if answer.etag:
            self._seen[table] = _Seen(answer.etag, location)
        return str(location)

    def _configuration(self) -> dict[str, str]:
        """What the catalog says about itself, asked once: its prefix, and its own idea of some properties."""
        if self._configured is None:
            warehouse = self._given.get("warehouse")
            query = f"?{urlencode({'warehouse': warehouse})}" if warehouse else ""
            answer = self._get(f"{self._given['uri'].rstrip('/')}/v1/config{query}", "its configuration")
            config = {} if answer is None else answer.json()
            self._configured = {**config.get("defaults", {}), **self._given, **config.get("overrides", {})}
        return self._configured

    def _address(self, namespace: Sequence[str]) -> str:
        configured = self._configuration()
        levels = quote(configured.get("namespace-separator", _LEVELS).join(namespace), safe="")
        prefix = f"/{configured['prefix'].strip('/')}" if configured.get("prefix") else ""
        return f"{configured['uri'].rstrip('/')}/v1{prefix}/namespaces/{levels}"

    def _get(self, address: str, what: str, etag: str | None = None) -> Answer | None:
        """The answer; None where there is no such thing."""
        try:
            try:
                return request(address, {**self._authority.headers(), **_unless_same(etag)})
            except HttpError as error:
                if error.status not in _REFUSED or not self._authority.renew():
                    raise
                return request(address, {**self._authority.headers(), **_unless_same(etag)})
        except HttpError as error:
            if error.status == _NOT_FOUND:
                return None
            if error.status in _REFUSED:
                message = (
                    f"the REST catalog refused to show {what} ({error.status}): check token or credential"
                )
                raise Invalid(message) from error
            raise Transient(f"the REST catalog did not answer about {what}: {error}") from error


def _unless_same(etag: str | None) -> dict[str, str]:
    return {"If-None-Match": etag} if etag else {}
