"""The source: a table whose columns change at random, and a record of all events by field id."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from icemirror.tables.cursor import CursorSource
from tests.lab.lab import changelog_schema
from tests.sim.engine import snapshots

CDC = ("cdc_operation", "sequence_number")
KEYS = tuple(range(1, 33))  # many, so that some stay unchanged for a long time
_NAMES, _CHILD_NAMES = tuple("abcdefg"), tuple("uvwxyz")
_OPERATIONS = {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}
_WIDER: dict[str, IcebergType] = {
    "int": LongType(),
    "float": DoubleType(),
    "decimal(5, 2)": DecimalType(12, 2),
}
_STRUCT = StructType(NestedField(50, "u", IntegerType()), NestedField(51, "v", StringType()))
FIRST = changelog_schema(
    ("id", IntegerType()), ("p", StringType()), ("r", StringType()), ("a", IntegerType()), ("s", _STRUCT)
)
KEY = FIRST.find_field("id").field_id

Values = dict[int, Any]
Order = tuple[int, int, int, int]


def first_schema() -> Schema:
    """Return a key, a partition column, a required column, a number and a struct."""
    fields = [
        column.model_copy(update={"required": True}) if column.name == "r" else column
        for column in FIRST.fields
    ]
    return Schema(*fields, identifier_field_ids=FIRST.identifier_field_ids)


@dataclass(frozen=True)
class Event:
    """One row of the changelog; `values`: those of its columns at that time, by field id, at any depth."""

    key: int
    operation: str
    lsn: int
    values: Values


@dataclass(frozen=True)
class File:
    """The events of one file, and the number of its commit."""

    commit: int
    number: int
    events: tuple[Event, ...]


def row_fields(schema: Schema) -> list[NestedField]:
    """Return the columns of the row."""
    return [column for column in schema.fields if column.name not in CDC]


@dataclass
class SourceRecord:
    """All files in the order of events. Columns are never matched by name. `changes`: how often columns changed."""

    files: list[File] = field(default_factory=list)
    clock: int = 1
    changes: int = 0

    def merged(self, source: CursorSource) -> int:
        """Return how many files precede a cursor."""
        if source.files_done is None:
            return sum(file.commit <= source.sequence_number for file in self.files)
        before = sum(file.commit < source.sequence_number for file in self.files)
        return before + source.files_done

    def rows(self, merged: int) -> dict[int, Values]:
        """Return the values of the greatest event of each key, unless it is a delete."""
        last: dict[int, tuple[Order, Event]] = {}
        for file in self.files[:merged]:
            for at, event in enumerate(file.events):
                order = (event.lsn, file.commit, file.number, at)
                if event.key not in last or order > last[event.key][0]:
                    last[event.key] = order, event
        return {key: event.values for key, (_, event) in last.items() if event.operation != "D"}

    def append(self, table: Table, dice: random.Random) -> str:
        """Commit a few files, written with the current columns."""
        number, schema = table.metadata.next_sequence_number(), table.schema()
        files = [
            [self._event(schema, dice) for _ in range(dice.choice([1, 2, 5]))]
            for _ in range(dice.randint(1, 3))
        ]
        data = [snapshots.write_parquet(table, as_arrow(schema, events), Record()) for events in files]
        snapshots.commit(table, "append", data)
        self.files += [File(number, at, tuple(events)) for at, events in enumerate(files)]
        return f"append {[[f'{event.operation}{event.key}@{event.lsn}' for event in file] for file in files]}"

    def _event(self, schema: Schema, dice: random.Random) -> Event:
        self.clock += dice.choice([0, 1, 1])
        late = dice.randint(1, 8) if dice.random() < 0.15 else 0
        key = dice.choice(KEYS)
        values = {column.field_id: _value(column, dice) for column in row_fields(schema)}
        values[schema.find_field("id").field_id] = key
        return Event(key, dice.choice("IIUUUD"), max(1, self.clock - late), values)


def _value(column: NestedField, dice: random.Random) -> Any:
    if not column.required and dice.random() < 0.15:
        return None
    match column.field_type:
        case IntegerType():
            return dice.randint(-(2**31), 2**31 - 1)
        case LongType():
            return dice.randint(-(2**62), 2**62)
        case FloatType():
            return dice.randint(-1000, 1000) / 8
        case DoubleType():
            return dice.random() * 1e300
        case DecimalType(precision=precision):
            return Decimal(dice.randint(0, 10**precision - 1)).scaleb(-2)
        case StructType(fields=fields):
            return {child.field_id: _value(child, dice) for child in fields}
        case _:
            return dice.choice(["x", "y", f"text {dice.randint(0, 99)}"])


def as_arrow(schema: Schema, events: list[Event]) -> pa.Table:
    """Return these events as an Arrow table."""
    rows = [
        {
            **{
                column.name: _by_name(column, event.values.get(column.field_id))
                for column in row_fields(schema)
            },
            "cdc_operation": _OPERATIONS[event.operation],
            "sequence_number": f"{event.lsn:016x}/{0:016x}",
        }
        for event in events
    ]
    return pa.Table.from_pylist(rows, schema=schema_to_pyarrow(schema))


def _by_name(column: NestedField, value: Any) -> Any:
    if value is None or not isinstance(column.field_type, StructType):
        return value
    return {child.name: _by_name(child, value.get(child.field_id)) for child in column.field_type.fields}


def change_columns(table: Table, record: SourceRecord, dice: random.Random) -> str | None:
    """Change the changelog's columns once; comments make every schema unique."""
    actions = [_add] * 5 + [_drop] * 3 + [_rename, _rename, _widen, _widen, _move, _make_optional]
    actions += [_add_child] * 2 + [_drop_child] * 2 + [_rename_child, _widen_child]
    chosen = dice.choice(actions)(table.schema(), dice)
    if chosen is None:
        return None
    entry, change = chosen
    record.changes += 1
    with table.update_schema(allow_incompatible_changes=True) as update:
        change(update)
    with table.update_schema() as update:
        update.update_column("id", doc=f"change {record.changes}")
    return entry


Change = tuple[str, Callable[[UpdateSchema], object]] | None


def _free(names: tuple[str, ...], taken: Iterator[str], dice: random.Random) -> str | None:
    left = sorted(set(names) - set(taken))
    return dice.choice(left) if left else None


def _kinds() -> list[IcebergType]:
    return [IntegerType(), FloatType(), DecimalType(5, 2), StringType(), _STRUCT]


def _columns(schema: Schema) -> list[NestedField]:
    return [column for column in row_fields(schema) if column.name != "id"]


def _add(schema: Schema, dice: random.Random) -> Change:
    name, kind = _free(_NAMES, (column.name for column in schema.fields), dice), dice.choice(_kinds())
    return None if name is None else (f"add {name} {kind}", lambda update: update.add_column(name, kind))


def _drop(schema: Schema, dice: random.Random) -> Change:
    columns = _columns(schema)
    if len(columns) < 3:
        return None
    newest = max(columns, key=lambda column: column.field_id)  # its field id must never be reused
    name = dice.choice([newest, dice.choice(columns)]).name
    return f"drop {name}", lambda update: update.delete_column(name)


def _rename(schema: Schema, dice: random.Random) -> Change:
    columns, new = _columns(schema), _free(_NAMES, (column.name for column in schema.fields), dice)
    if new is None or not columns:
        return None
    name = dice.choice(columns).name
    return f"rename {name} to {new}", lambda update: update.rename_column(name, new)


def _widen(schema: Schema, dice: random.Random) -> Change:
    narrow = [column for column in row_fields(schema) if str(column.field_type) in _WIDER]
    if not narrow:
        return None
    column = dice.choice(narrow)
    kind = _WIDER[str(column.field_type)]
    return f"widen {column.name} to {kind}", lambda update: update.update_column(column.name, kind)


def _move(schema: Schema, dice: random.Random) -> Change:
    columns = _columns(schema)
    if not columns:
        return None
    name = dice.choice(columns).name
    return f"move {name} first", lambda update: update.move_first(name)


def _make_optional(schema: Schema, _dice: random.Random) -> Change:
    required = [column for column in _columns(schema) if column.required]
    if not required:
        return None
    return f"{required[0].name} optional", lambda update: update.make_column_optional(required[0].name)


def _struct(schema: Schema, dice: random.Random) -> tuple[str, StructType] | None:
    found = [
        (column.name, column.field_type)
        for column in schema.fields
        if isinstance(column.field_type, StructType)
    ]
    return dice.choice(found) if found else None


def _add_child(schema: Schema, dice: random.Random) -> Change:
    if (found := _struct(schema, dice)) is None:
        return None
    new = _free(_CHILD_NAMES, (child.name for child in found[1].fields), dice)
    kind = dice.choice(_kinds()[:4])
    return (
        None
        if new is None
        else (f"add {found[0]}.{new}", lambda update: update.add_column((found[0], new), kind))
    )


def _drop_child(schema: Schema, dice: random.Random) -> Change:
    if (found := _struct(schema, dice)) is None or len(found[1].fields) < 2:
        return None
    newest = max(found[1].fields, key=lambda child: child.field_id)
    name = dice.choice([newest, dice.choice(found[1].fields)]).name
    return f"drop {found[0]}.{name}", lambda update: update.delete_column((found[0], name))


def _rename_child(schema: Schema, dice: random.Random) -> Change:
    if (found := _struct(schema, dice)) is None:
        return None
    new = _free(_CHILD_NAMES, (child.name for child in found[1].fields), dice)
    name = dice.choice(found[1].fields).name
    if new is None:
        return None
    return f"rename {found[0]}.{name} to {new}", lambda update: update.rename_column((found[0], name), new)


def _widen_child(schema: Schema, dice: random.Random) -> Change:
    if (found := _struct(schema, dice)) is None:
        return None
    narrow = [child for child in found[1].fields if str(child.field_type) in _WIDER]
    if not narrow:
        return None
    child = dice.choice(narrow)
    kind = _WIDER[str(child.field_type)]
    return f"widen {found[0]}.{child.name}", lambda update: update.update_column((found[0], child.name), kind)
