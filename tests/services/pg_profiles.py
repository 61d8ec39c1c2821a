"""The changelog formats of Supabase ETL and Debezium: the events that they write for changes in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pyiceberg.types import BinaryType, IcebergType, ListType, LongType, StringType

from tests.services import pg_types
from tests.services.pg_source import Change, Columns
from tests.services.pgoutput import UNCHANGED, Cell, Cells, Row

PLACEHOLDER = "__debezium_unavailable_value"
Order = Literal["lsn", "lsn and ordinal", "sequence"]


@dataclass(frozen=True)
class Event:
    """A row of a changelog: source values by column number, metadata values by role."""

    values: Mapping[int, Any]
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class MetadataColumn:
    """A column that the writer adds; `key_number` is the number of the key column after which it is named."""

    role: str
    name: str
    kind: IcebergType
    required: bool = False
    key_number: int | None = None


class Profile(Protocol):
    """The changelog format of one writer."""

    @property
    def options(self) -> str:
        """Return the table settings for this format."""

    def type_of(self, kind: str) -> IcebergType:
        """Return the Iceberg type of a column."""

    def metadata_columns(self, columns: Columns) -> list[MetadataColumn]:
        """Return the metadata columns, which come last."""

    def copy_event(self, values: Mapping[int, Any], lsn: int) -> Event:
        """Return the event of a row of the initial copy, made at an LSN."""

    def change_events(self, columns: Columns, row: Row, change: Change) -> Iterator[Event]:
        """Return the events of a changed row."""

    def truncate_event(self, change: Change) -> Event | None:
        """Return the event of a TRUNCATE; None if the writer recreates the changelog instead."""


def _filled(row: Row) -> Cells:
    """Return the row after the change. An omitted large value is taken from the old row, if that contains it."""
    new, old = row.new or {}, row.old or {}
    return {name: old.get(name, cell) if cell is UNCHANGED else cell for name, cell in new.items()}


@dataclass(frozen=True)
class SupabaseEtl:
    """Supabase ETL: an update has the new row, a delete the old one; missing values are defaults, or NULL.

    The sequence is the commit LSN and the ordinal in the transaction, in hexadecimal; zeros in the initial copy.
    """

    nulls: bool = False
    options: str = ""

    def type_of(self, kind: str) -> IcebergType:
        return pg_types.supabase_etl_type(kind)

    def metadata_columns(self, columns: Columns) -> list[MetadataColumn]:
        return [
            MetadataColumn(role, _unused_name(role, columns.names), StringType(), required=True)
            for role in ("cdc_operation", "sequence_number")
        ]

    def copy_event(self, values: Mapping[int, Any], lsn: int) -> Event:
        return _etl_event(values, "INSERT", 0, 0)

    def change_events(self, columns: Columns, row: Row, change: Change) -> Iterator[Event]:
        operation = "DELETE" if row.new is None else "INSERT" if row.inserted else "UPDATE"
        cells = (row.old or {}) if row.new is None else _filled(row)
        values = {
            column.number: self._value(cells.get(column.name, UNCHANGED), column.type)
            for column in columns.columns
        }
        yield _etl_event(values, operation, change.commit_lsn, change.ordinal)

    def truncate_event(self, change: Change) -> Event | None:
        return None

    def _value(self, cell: Cell, kind: str) -> Any:
        if cell is UNCHANGED:
            return None if self.nulls else pg_types.default(self.type_of(kind))
        return None if cell is None else pg_types.parse(cell, self.type_of(kind))


def _etl_event(values: Mapping[int, Any], operation: str, commit_lsn: int, ordinal: int) -> Event:
    return Event(values, {"cdc_operation": operation, "sequence_number": f"{commit_lsn:016x}/{ordinal:016x}"})


def _unused_name(name: str, taken: list[str]) -> str:
    numbered = (f"{name}_{number}" for number in range(1, 99))
    return next(candidate for candidate in (name, *numbered) if candidate not in taken)


@dataclass
class Debezium:
    """Debezium: flattened rows with the LSN of each change, optionally with its ordinal, or with `source.sequence`.

    A key change is a delete and an insert, or, with `before`, an update that contains the old key.
    """

    order: Order = "lsn"
    before: bool = False
    null_records: bool = False
    _transaction: int = 0
    _last_commit: int | None = None
    _ordinal: int = 0

    @property
    def options(self) -> str:
        if self.order == "sequence":
            return (
                "profile: debezium\nsequence_column: __source_sequence\n"
                "sequence_format: {__source_sequence: postgres-sequence}"
            )
        return "profile: debezium\nconnector: postgres"

    def type_of(self, kind: str) -> IcebergType:
        return pg_types.debezium_type(kind)

    def metadata_columns(self, columns: Columns) -> list[MetadataColumn]:
        keys = [
            MetadataColumn(
                f"before {column.number}",
                f"__before_{column.name}",
                self.type_of(column.type),
                key_number=column.number,
            )
            for column in columns.keys
            if self.before
        ]
        order = {
            "lsn": [MetadataColumn("lsn", "__source_lsn", LongType())],
            "lsn and ordinal": [
                MetadataColumn("lsn", "__source_lsn", LongType()),
                MetadataColumn("ordinal", "__transaction_total_order", LongType()),
            ],
            "sequence": [MetadataColumn("sequence", "__source_sequence", StringType())],
        }
        texts = [MetadataColumn(role, f"__{role}", StringType()) for role in ("op", "table", "deleted")]
        return [*keys, *texts, *order[self.order]]

    def copy_event(self, values: Mapping[int, Any], lsn: int) -> Event:
        return Event(values, {"op": "r", "deleted": "false", "lsn": lsn, "sequence": f'[null,"{lsn}"]'})

    def change_events(self, columns: Columns, row: Row, change: Change) -> Iterator[Event]:
        if row.new is None:
            yield from self._deleted(columns, row.old or {}, change)
            return
        cells = _filled(row)
        values = {column.number: self._value(cells[column.name], column.type) for column in columns.columns}
        if row.inserted:
            yield self._event(values, "c", change)
            return
        old = {
            column.number: self._value((row.old or {}).get(column.name), column.type)
            for column in columns.keys
        }
        moved = row.old is not None and any(values[number] != old_value for number, old_value in old.items())
        if moved and not self.before:
            yield from self._deleted(columns, row.old or {}, change)
            yield self._event(values, "c", change)
            return
        yield self._event(
            values, "u", change, {f"before {number}": old_value for number, old_value in old.items()}
        )

    def truncate_event(self, change: Change) -> Event | None:
        return self._event({}, "t", change)

    def _deleted(self, columns: Columns, cells: Cells, change: Change) -> Iterator[Event]:
        values = {
            column.number: self._value(cells[column.name], column.type)
            for column in columns.columns
            if column.name in cells
        }
        keys = {column.number: values[column.number] for column in columns.keys}
        yield self._event(
            values, "d", change, {f"before {number}": old_value for number, old_value in keys.items()}
        )
        if self.null_records:
            yield Event(keys, {})

    def _event(
        self, values: Mapping[int, Any], op: str, change: Change, before: Mapping[str, Any] | None = None
    ) -> Event:
        if change.commit_lsn != self._transaction:
            self._last_commit, self._transaction, self._ordinal = (
                self._transaction or None,
                change.commit_lsn,
                0,
            )
        self._ordinal += 1
        last = "null" if self._last_commit is None else f'"{self._last_commit}"'
        metadata = {
            "op": op,
            "table": "world",
            "deleted": "true" if op == "d" else "false",
            "lsn": change.lsn,
            "ordinal": self._ordinal,
            "sequence": f'[{last},"{change.lsn}"]',
        }
        return Event(values, {**metadata, **(before or {})})

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
            raise ValueError(f"no placeholder for an omitted value of type {kind}")
