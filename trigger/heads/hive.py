"""Heads from a Hive Metastore: the parameter `metadata_location` of each table, many tables by one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from icemirror.errors import BadConfig, IcemirrorError, Invalid, Transient
from icemirror.hive_address import EXPECTED, metastores, user_and_group
from icemirror.table_id import TableId
from trigger.heads.source import Head, missing
from trigger.heads.thrift import CallFailed, Connection, Given, ThriftError, UnknownMethod, connected

_AT_ONCE = 100  # tables in a call: each comes with all of its columns
_LEAST_CAPABILITIES = {1: [2]}  # INSERT_ONLY_TABLES: else one such table hides all that are asked for with it
_UNKNOWN_DATABASE = 3  # the exception's place in both calls for several tables
_REFUSED = ("permission denied", "accesscontrolexception", "not authorized", "does not have privileges")
# Fields of Hive's struct `Table`.
_NAME, _PARAMETERS = 1, 9
_WHERE: Final = "the Hive Metastore"
Answer = TypeVar("Answer")
Table = Mapping[int, Any]  # by field number


class HiveHeads:
    """Asks one of several metastores that share their tables: the one that answered last, else the next."""

    def __init__(self, addresses: Sequence[tuple[str, int]], user: tuple[str, str] | None) -> None:
        self._addresses = list(addresses)
        self._user = user
        self._by_request = True  # since Hive 3; Hive 4 knows nothing else

    def look(self, tables: Sequence[TableId]) -> dict[TableId, Head]:
        """The heads; a database that is missing, or not told of, does not hide the others."""
        heads: dict[TableId, Head] = {}

        def ask(connection: Connection) -> None:
            for database in sorted({table.namespace for table in tables}):
                heads.update(self._heads(connection, [one for one in tables if one.namespace == database]))

        self._ask(ask, "its tables")
        return heads

    def list_tables(self, namespace: str) -> tuple[str, ...]:
        """The Iceberg tables of a database."""

        def ask(connection: Connection) -> tuple[str, ...]:
            try:
                names = _list_of(connection.call("get_all_tables", {1: namespace}))
                found = [
                    one
                    for some in _portions(names)
                    for one in self._tables(connection, namespace, [str(name) for name in some])
                ]
            except CallFailed as error:
                if error.number == _UNKNOWN_DATABASE:
                    return ()
                raise _named(error, f"the database {namespace}") from error
            return tuple(sorted(str(table[_NAME]) for table in found if _is_iceberg(table)))

        return self._ask(ask, f"the database {namespace}")

    def close(self) -> None:
        """Nothing stays open."""

    def _heads(self, connection: Connection, tables: Sequence[TableId]) -> Iterator[tuple[TableId, Head]]:
        """Of tables of one database."""
        if len(tables[0].namespace) != 1:  # Hive has no databases in databases
            yield from ((table, missing(table, _WHERE)) for table in tables)
            return
        database = tables[0].namespace[0]
        found: dict[str, Table] = {}
        try:
            for some in _portions(tables):
                names = [table.name for table in some]
                found |= {str(one[_NAME]): one for one in self._tables(connection, database, names)}
        except CallFailed as error:
            if error.number != _UNKNOWN_DATABASE:
                failure = _named(error, f"the database {database}")
                yield from ((table, failure) for table in tables)
                return
        for table in tables:
            # Hive keeps names in small letters, and takes them in any.
            yield table, _head(table, found.get(table.name.lower()))

    def _tables(self, connection: Connection, database: str, names: Sequence[str]) -> list[Table]:
        """Those of the tables that exist."""
        try:
            return self._call(connection, database, names)
        except UnknownMethod:
            self._by_request = not self._by_request
        try:
            return self._call(connection, database, names)
        except UnknownMethod as error:
            raise ThriftError(f"it knows no call {error}: is it a Hive Metastore?") from error

    def _call(self, connection: Connection, database: str, names: Sequence[str]) -> list[Table]:
        if not self._by_request:
            return _list_of(connection.call("get_table_objects_by_name", {1: database, 2: names}))
        request: Given = {1: database, 2: names, 3: _LEAST_CAPABILITIES}
        answer = connection.call("get_table_objects_by_name_req", {1: request})
        return _list_of(answer.get(1) if isinstance(answer, dict) else None)

    def _ask(self, work: Callable[[Connection], Answer], what: str) -> Answer:
        """What one of the metastores answers."""
        failures: list[str] = []
        for host, port in list(self._addresses):
            try:
                with connected(host, port) as connection:
                    if self._user:
                        connection.call("set_ugi", {1: self._user[0], 2: [self._user[1]]})
                    answer = work(connection)
            except (ThriftError, UnknownMethod, CallFailed) as error:
                failures.append(f"{host}:{port}: {error}")
                continue
            others = [one for one in self._addresses if one != (host, port)]
            self._addresses = [(host, port), *others]
            return answer
        raise Transient(f"{_WHERE} did not answer about {what}: {'; '.join(failures)}")


def open_hive(properties: Mapping[str, str], catalog: str) -> HiveHeads:
    """The Hive Metastore with these properties of PyIceberg's."""
    addresses = metastores(properties.get("uri", ""))
    if addresses is None:
        raise BadConfig(f"catalog {catalog}: its uri is no address of a hive catalog: {EXPECTED}")
    ugi = properties.get("ugi")
    user = None if ugi is None else user_and_group(ugi)
    if ugi is not None and user is None:
        raise BadConfig(f"catalog {catalog}: its property ugi is not user:group")
    return HiveHeads(addresses, user)


def _head(table: TableId, found: Table | None) -> Head:
    if found is None:
        return missing(table, _WHERE)
    if not _is_iceberg(found):
        return Invalid(f"the changelog {table} is in {_WHERE}, but no Iceberg table")
    return str(found[_PARAMETERS]["metadata_location"])


def _is_iceberg(table: Table) -> bool:
    """A view of Iceberg's is none: it says `iceberg-view`."""
    parameters = table.get(_PARAMETERS) or {}
    return str(parameters.get("table_type", "")).lower() == "iceberg" and "metadata_location" in parameters


def _list_of(answer: object) -> list[Any]:  # Any: of what the call returns
    if not isinstance(answer, list):
        raise ThriftError("its answer is not what the call returns")
    return answer


def _portions(names: Sequence[Answer]) -> Iterator[Sequence[Answer]]:
    return (names[at : at + _AT_ONCE] for at in range(0, len(names), _AT_ONCE))


def _named(error: CallFailed, what: str) -> IcemirrorError:
    """The failure of a call, by what to do about it."""
    said = str(error)
    if any(words in said.lower() for words in _REFUSED):
        return Invalid(f"{_WHERE} refused to show {what}: {said}. Let the user of `ugi` read it.")
    return Transient(f"{_WHERE} did not answer about {what}: {said}")
