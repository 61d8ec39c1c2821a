"""How Supabase ETL and Debezium tell changes of a PostgreSQL, as rows of a changelog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pyiceberg.types import BinaryType, IcebergType, ListType, LongType, StringType

from tests.services import pg_types
from tests.services.pg_source import Change, Columns
from tests.services.pgoutput import UNCHANGED, Cell, Cells, Row

PLACEHOLDER = "__debezium_unavailable_value"
Order = Literal["lsn", "lsn and place", "sequence"]


@dataclass(frozen=True)
class Event:
    """A row of a changelog: the source's values by the numbers of their columns, the writer's own by their roles."""

    values: Mapping[int, Any]
    own: Mapping[str, Any]


@dataclass(frozen=True)
class OwnColumn:
    """A column of the writer; `beside`: the number of the source's column after which it is named."""

    role: str
    name: str
    kind: IcebergType
    required: bool = False
    beside: int | None = None


class Profile(Protocol):
    """How one writer does it."""

    @property
    def options(self) -> str:
        """Settings of the table."""

    def type_of(self, kind: str) -> IcebergType:
        """The type of a column."""

    def own_columns(self, columns: Columns) -> list[OwnColumn]:
        """The writer's columns, which come last."""

    def copied(self, values: Mapping[int, Any], at: int) -> Event:
        """A row of the initial copy, made at an LSN."""

    def told(self, columns: Columns, row: Row, change: Change) -> Iterator[Event]:
        """What a change of a row becomes."""

    def truncated(self, change: Change) -> Event | None:
        """What is said of a TRUNCATE; None: nothing, the changelog is made anew."""


def _filled(row: Row) -> Cells:
    """The row after the change. A large value that it does not tell is that of the row before, if that is told."""
    new, old = row.new or {}, row.old or {}
    return {name: old.get(name, cell) if cell is UNCHANGED else cell for name, cell in new.items()}


@dataclass(frozen=True)
class SupabaseEtl:
    """Of an update the new row, of a delete the old one, as far as it is told; all else is empty, or NULL.

    The order is the commit's LSN and the place in the transaction, in hexadecimal digits; zeros in the initial copy.
    """

    nulls: bool = False
    options: str = ""

    def type_of(self, kind: str) -> IcebergType:
        return pg_types.of_supabase_etl(kind)

    def own_columns(self, columns: Columns) -> list[OwnColumn]:
        return [
            OwnColumn(role, _free(role, columns.names), StringType(), required=True)
            for role in ("cdc_operation", "sequence_number")
        ]

    def copied(self, values: Mapping[int, Any], at: int) -> Event:
        return _etl_event(values, "INSERT", 0, 0)

    def told(self, columns: Columns, row: Row, change: Change) -> Iterator[Event]:
        operation = "DELETE" if row.new is None else "INSERT" if row.inserted else "UPDATE"
        cells = (row.old or {}) if row.new is None else _filled(row)
        values = {
            one.number: self._value(cells.get(one.name, UNCHANGED), one.type) for one in columns.columns
        }
        yield _etl_event(values, operation, change.commit_lsn, change.ordinal)

    def truncated(self, change: Change) -> Event | None:
        return None

    def _value(self, cell: Cell, kind: str) -> Any:
        if cell is UNCHANGED:
            return None if self.nulls else pg_types.default(self.type_of(kind))
        return None if cell is None else pg_types.parse(cell, self.type_of(kind))


def _etl_event(values: Mapping[int, Any], operation: str, commit_lsn: int, ordinal: int) -> Event:
    return Event(values, {"cdc_operation": operation, "sequence_number": f"{commit_lsn:016x}/{ordinal:016x}"})


def _free(name: str, taken: list[str]) -> str:
    numbered = (f"{name}_{number}" for number in range(1, 99))
    return next(one for one in (name, *numbered) if one not in taken)


@dataclass
class Debezium:
    """Flattened rows with the LSN of each change, and perhaps its place in the transaction, or `source.sequence`.

    Another key is a delete and an insert, or, with `before`, an update that names the key before.
    """

    order: Order = "lsn"
    before: bool = False
    tombstones: bool = False
    _transaction: int = 0
    _last_commit: int | None = None
    _place: int = 0

    @property
    def options(self) -> str:
        if self.order == "sequence":
            return (
                "profile: debezium\nsequence_column: __source_sequence\n"
                "sequence_format: {__source_sequence: postgres-sequence}"
            )
        return "profile: debezium\nconnector: postgres"

    def type_of(self, kind: str) -> IcebergType:
        return pg_types.of_debezium(kind)

    def own_columns(self, columns: Columns) -> list[OwnColumn]:
        keys = [
            OwnColumn(
                f"before {one.number}", f"__before_{one.name}", self.type_of(one.type), beside=one.number
            )
            for one in columns.keys
            if self.before
        ]
        order = {
            "lsn": [OwnColumn("lsn", "__source_lsn", LongType())],
            "lsn and place": [
                OwnColumn("lsn", "__source_lsn", LongType()),
                OwnColumn("place", "__transaction_total_order", LongType()),
            ],
            "sequence": [OwnColumn("sequence", "__source_sequence", StringType())],
        }
        texts = [OwnColumn(role, f"__{role}", StringType()) for role in ("op", "table", "deleted")]
        return [*keys, *texts, *order[self.order]]

    def copied(self, values: Mapping[int, Any], at: int) -> Event:
        return Event(values, {"op": "r", "deleted": "false", "lsn": at, "sequence": f'[null,"{at}"]'})

    def told(self, columns: Columns, row: Row, change: Change) -> Iterator[Event]:
        if row.new is None:
            yield from self._deleted(columns, row.old or {}, change)
            return
        cells = _filled(row)
        values = {one.number: self._value(cells[one.name], one.type) for one in columns.columns}
        if row.inserted:
            yield self._event(values, "c", change)
            return
        old = {one.number: self._value((row.old or {}).get(one.name), one.type) for one in columns.keys}
        moved = row.old is not None and any(values[number] != was for number, was in old.items())
        if moved and not self.before:
            yield from self._deleted(columns, row.old or {}, change)
            yield self._event(values, "c", change)
            return
        yield self._event(values, "u", change, {f"before {number}": was for number, was in old.items()})

    def truncated(self, change: Change) -> Event | None:
        return self._event({}, "t", change)

    def _deleted(self, columns: Columns, cells: Cells, change: Change) -> Iterator[Event]:
        values = {
            one.number: self._value(cells[one.name], one.type) for one in columns.columns if one.name in cells
        }
        keys = {one.number: values[one.number] for one in columns.keys}
        yield self._event(values, "d", change, {f"before {number}": was for number, was in keys.items()})
        if self.tombstones:
            yield Event(keys, {})

    def _event(
        self, values: Mapping[int, Any], op: str, change: Change, before: Mapping[str, Any] | None = None
    ) -> Event:
        if change.commit_lsn != self._transaction:
            self._last_commit, self._transaction, self._place = (
                self._transaction or None,
                change.commit_lsn,
                0,
            )
        self._place += 1
        last = "null" if self._last_commit is None else f'"{self._last_commit}"'
        own = {
            "op": op,
            "table": "world",
            "deleted": "true" if op == "d" else "false",
            "lsn": change.lsn,
            "place": self._place,
            "sequence": f'[{last},"{change.lsn}"]',
        }
        return Event(values, {**own, **(before or {})})

    def _value(self, cell: Cell, kind: str) -> Any:
        if cell is UNCHANGED:
            return _placeholder(self.type_of(kind))
        return None if cell is None else pg_types.parse(cell, self.type_of(kind))


def _placeholder(kind: IcebergType) -> Any:
    match kind:
        case StringType():
            return PLACEHOLDER
        case BinaryType():
            return PLACEHOLDER.encode()
        case ListType() if isinstance(kind.element_type, StringType):
            return [PLACEHOLDER]
        case ListType():
            return list(PLACEHOLDER.encode())
        case _:
            raise ValueError(f"nothing stands for a value of type {kind} that is not told")
