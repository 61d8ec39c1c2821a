"""Heads of a Hive Metastore: the parameter `metadata_location` of each table, many tables per call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from icemirror.catalogs.hive_address import EXPECTED_URI, parse_metastores, user_and_group
from icemirror.errors import BadConfig, IcemirrorError, Invalid, Transient
from icemirror.tables.table_id import TableId
from trigger.heads.head_source import HeadResult, missing_changelog
from trigger.heads.thrift import (
    CallFailed,
    Connection,
    ThriftArgument,
    ThriftError,
    UnknownMethod,
    open_connection,
)

_TABLES_PER_CALL = 100  # each table is returned with all of its columns
_CLIENT_CAPABILITIES = {1: [2]}  # INSERT_ONLY_TABLES: without it, one such table fails the whole call
_UNKNOWN_DATABASE = 3  # the exception's number in both calls for several tables
_REFUSED = ("permission denied", "accesscontrolexception", "not authorized", "does not have privileges")
# Fields of Hive's struct `Table`.
_NAME, _PARAMETERS = 1, 9
_METASTORE: Final = "the Hive Metastore"
T = TypeVar("T")
HiveTable = Mapping[int, Any]  # by field number


class HiveHeads:
    """Reads from one of several metastores that share their tables: the last one that answered, or the next."""

    def __init__(self, addresses: Sequence[tuple[str, int]], user: tuple[str, str] | None) -> None:
        self._addresses = list(addresses)
        self._user = user
        self._uses_request_call = True  # since Hive 3; the only form in Hive 4

    def load_heads(self, tables: Sequence[TableId]) -> dict[TableId, HeadResult]:
        """Return the heads; a missing or unreadable database does not hide the others."""
        heads: dict[TableId, HeadResult] = {}

        def load(connection: Connection) -> None:
            for database in sorted({table.namespace for table in tables}):
                heads.update(
                    self._load_heads(connection, [table for table in tables if table.namespace == database])
                )

        self._try_each(load, "its tables")
        return heads

    def list_tables(self, namespace: str) -> tuple[str, ...]:
        """Return the Iceberg tables of a database."""

        def list_names(connection: Connection) -> tuple[str, ...]:
            try:
                names = _require_list(connection.call("get_all_tables", {1: namespace}))
                tables = [
                    table
                    for batch in _batches(names)
                    for table in self._load_tables(connection, namespace, [str(name) for name in batch])
                ]
            except CallFailed as error:
                if error.field_id == _UNKNOWN_DATABASE:
                    return ()
                raise _classify_error(error, f"the database {namespace}") from error
            return tuple(sorted(str(table[_NAME]) for table in tables if _is_iceberg(table)))

        return self._try_each(list_names, f"the database {namespace}")

    def close(self) -> None:
        """Do nothing: each call opens a connection."""

    def _load_heads(
        self, connection: Connection, tables: Sequence[TableId]
    ) -> Iterator[tuple[TableId, HeadResult]]:
        """Yield the heads of tables in one database."""
        if len(tables[0].namespace) != 1:  # Hive has no nested databases
            yield from ((table, missing_changelog(table, _METASTORE)) for table in tables)
            return
        database = tables[0].namespace[0]
        tables_by_name: dict[str, HiveTable] = {}
        try:
            for batch in _batches(tables):
                names = [table.name for table in batch]
                tables_by_name |= {
                    str(table[_NAME]): table for table in self._load_tables(connection, database, names)
                }
        except CallFailed as error:
            if error.field_id != _UNKNOWN_DATABASE:
                failure = _classify_error(error, f"the database {database}")
                yield from ((table, failure) for table in tables)
                return
        for table in tables:
            # Hive stores names in lower case and accepts any case.
            yield table, _read_head(table, tables_by_name.get(table.name.lower()))

    def _load_tables(self, connection: Connection, database: str, names: Sequence[str]) -> list[HiveTable]:
        """Return those of the tables that exist. The form of the call that worked is tried first the next time."""
        unknown_method: UnknownMethod | None = None
        for uses_request_call in (self._uses_request_call, not self._uses_request_call):
            load = _load_by_request if uses_request_call else _load_by_names
            try:
                tables = load(connection, database, names)
            except UnknownMethod as error:
                unknown_method = error
                continue
            self._uses_request_call = uses_request_call
            return tables
        raise ThriftError(
            f"it has no method {unknown_method}, so it is not a Hive Metastore: check `uri`"
        ) from unknown_method

    def _try_each(self, load: Callable[[Connection], T], subject: str) -> T:
        """Return the response of the first metastore that gives one."""
        failures: list[str] = []
        for host, port in list(self._addresses):
            try:
                with open_connection(host, port) as connection:
                    if self._user:
                        connection.call("set_ugi", {1: self._user[0], 2: [self._user[1]]})
                    response = load(connection)
            except (ThriftError, UnknownMethod, CallFailed) as error:
                failures.append(f"{host}:{port}: {error}")
                continue
            other_addresses = [address for address in self._addresses if address != (host, port)]
            self._addresses = [(host, port), *other_addresses]
            return response
        raise Transient(f"{_METASTORE} did not respond to a request for {subject}: {'; '.join(failures)}")


def open_hive(properties: Mapping[str, str], catalog: str) -> HiveHeads:
    """Open the Hive Metastore with these PyIceberg properties."""
    addresses = parse_metastores(properties.get("uri", ""))
    if addresses is None:
        raise BadConfig(f"catalog {catalog}: its uri is not the address of a Hive Metastore: {EXPECTED_URI}")
    ugi = properties.get("ugi")
    user = None if ugi is None else user_and_group(ugi)
    if ugi is not None and user is None:
        raise BadConfig(f"catalog {catalog}: its property ugi is not user:group")
    return HiveHeads(addresses, user)


def _load_by_request(connection: Connection, database: str, names: Sequence[str]) -> list[HiveTable]:
    request: ThriftArgument = {1: database, 2: names, 3: _CLIENT_CAPABILITIES}
    response = connection.call("get_table_objects_by_name_req", {1: request})
    return _require_list(response.get(1) if isinstance(response, dict) else None)


def _load_by_names(connection: Connection, database: str, names: Sequence[str]) -> list[HiveTable]:
    return _require_list(connection.call("get_table_objects_by_name", {1: database, 2: names}))


def _read_head(table_id: TableId, table: HiveTable | None) -> HeadResult:
    if table is None:
        return missing_changelog(table_id, _METASTORE)
    if not _is_iceberg(table):
        return Invalid(f"the changelog {table_id} in {_METASTORE} is not an Iceberg table")
    return str(table[_PARAMETERS]["metadata_location"])


def _is_iceberg(table: HiveTable) -> bool:
    """Return whether it is an Iceberg table; a view has the type `iceberg-view`."""
    parameters = table.get(_PARAMETERS) or {}
    return str(parameters.get("table_type", "")).lower() == "iceberg" and "metadata_location" in parameters


def _require_list(response: object) -> list[Any]:  # Any: the call's result
    if not isinstance(response, list):
        raise ThriftError("unexpected type of response")
    return response


def _batches(names: Sequence[T]) -> Iterator[Sequence[T]]:
    return (names[start : start + _TABLES_PER_CALL] for start in range(0, len(names), _TABLES_PER_CALL))


def _classify_error(error: CallFailed, subject: str) -> IcemirrorError:
    """Return the icemirror error for a failed call."""
    text = str(error)
    if any(words in text.lower() for words in _REFUSED):
        return Invalid(f"{_METASTORE} denied access to {subject}: {text}. Let the user of `ugi` read it.")
    return Transient(f"{_METASTORE} did not respond to a request for {subject}: {text}")
