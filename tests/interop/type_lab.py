"""Mirrors of the samples: their values as columns, or as keys, inserted, updated and deleted by merges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table
from pyiceberg.types import LongType

from icemirror.cli.demo.oracle.canonical import render_cells
from tests.interop.type_samples import Column, Sample
from tests.lab.lab import Lab, changelog_schema, sequence_text

MAX_KEY_COLUMNS = 8
_KEY = "id"
_KEYS_OF_MANY_COLUMNS = 24

# Column name → cells as canonical bytes, in the order of the row's number.
Cells = dict[str, list[bytes]]


@dataclass(frozen=True)
class TypedMirror:
    """A mirror, the column names of each sample, and the expected cells. The column `number` identifies a row."""

    mirror: Table
    names: dict[str, tuple[str, ...]]
    number: str
    columns: pa.Schema
    expected: Cells

    def difference(self, rows: pa.Table, names: Sequence[str]) -> str | None:
        """Return the difference of a reader's rows in these columns, or None."""
        try:
            found = cells_of(rows, self.columns, self.number, names)
        except (ValueError, KeyError, pa.ArrowException) as error:
            return f"{type(error).__name__}: {error}"
        for name in (self.number, *names):
            if found[name] != self.expected[name]:
                return f"{name}: {_first_difference(found[name], self.expected[name])}"
        return None


def mirror_columns(folder: Path, samples: Sequence[Sample], version: int) -> TypedMirror:
    """Return a mirror with all columns of the samples; each row has one value of each."""
    names: dict[str, tuple[str, ...]] = {}
    columns: dict[str, Column] = {}
    for sample in samples:
        sample_columns = {
            f"c{len(columns) + index}": _with_null(sample, column)
            for index, column in enumerate(sample.columns)
        }
        names[sample.name] = tuple(sample_columns)
        columns |= sample_columns
    half = max(len(column.values) for column in columns.values())
    count = 2 * half  # the first half is updated; the second half keeps every value
    lab = _make(
        folder,
        [(_KEY, LongType()), *((name, column.kind) for name, column in columns.items())],
        (_KEY,),
        version,
    )
    inserted = {key: key for key in range(count)}
    _merge(
        lab,
        [{_KEY: key, **_values(columns, value_index)} for key, value_index in inserted.items()],
        "INSERT",
        1,
    )
    updated = {key: key + 1 for key in range(half)} | {count: 0}
    _merge(
        lab,
        [{_KEY: key, **_values(columns, value_index)} for key, value_index in updated.items()],
        "UPDATE",
        2,
        deleted=[{_KEY: key} for key in (1, count)],
    )
    live = {key: value_index for key, value_index in (inserted | updated).items() if key not in (1, count)}
    rows = [{_KEY: key, **_values(columns, value_index)} for key, value_index in sorted(live.items())]
    return _typed_mirror(lab, names, _KEY, rows)


def mirror_keys(folder: Path, columns: Sequence[Column], version: int) -> TypedMirror:
    """Return a mirror whose key consists of these columns; `number` identifies its rows."""
    named = {f"k{index}": column for index, column in enumerate(columns)}
    number = "number"
    lab = _make(
        folder,
        [*((name, column.kind) for name, column in named.items()), (number, LongType())],
        tuple(named),
        version,
    )
    keys = [dict(zip(named, values, strict=True)) for values in _tuples(columns)]
    _merge(lab, [{**key, number: index} for index, key in enumerate(keys)], "INSERT", 1)
    changed = {index: 1000 + index for index in range(0, len(keys), 2)}
    reinserted = {index: 2000 + index for index in range(len(keys)) if index % 3 == 1}
    _merge(
        lab,
        [{**keys[index], number: new_number} for index, new_number in changed.items()],
        "UPDATE",
        2,
        deleted=[keys[index] for index in reinserted],
    )
    _merge(
        lab, [{**keys[index], number: new_number} for index, new_number in reinserted.items()], "INSERT", 4
    )
    numbers = {index: index for index in range(len(keys))} | changed | reinserted
    rows = [{**keys[index], number: new_number} for index, new_number in numbers.items()]
    return _typed_mirror(lab, {"key": tuple(named)}, number, sorted(rows, key=lambda row: row[number]))


def key_tables(sample: Sample) -> list[Sequence[Column]]:
    """Return the keys to test of a sample: its first column, and chunks of at most eight columns."""
    columns = sample.columns
    if len(columns) <= 1:
        return [columns]
    chunks = [columns[start : start + MAX_KEY_COLUMNS] for start in range(0, len(columns), MAX_KEY_COLUMNS)]
    return chunks if sample.name.startswith("8 columns") else [columns[:1], *chunks]


def cells_of(rows: pa.Table, columns: pa.Schema, number: str, names: Sequence[str]) -> Cells:
    """Return the cells of some columns, ordered by the row's number."""
    ordered = rows.sort_by(number) if rows.num_rows else rows
    return {
        name: render_cells(_combined(ordered[name]), columns.field(name).type).to_pylist()
        for name in (number, *names)
    }


def plain(kind: pa.DataType) -> pa.DataType:
    """Replace Arrow's extension types with their storage types: PyArrow cannot create nested extension values."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain_field(kind.value_field))
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(plain(field.type))


def _make(folder: Path, columns: Sequence[tuple[str, Any]], keys: tuple[str, ...], version: int) -> Lab:
    schema = changelog_schema(*columns, keys=keys)
    required_version = max(field.field_type.minimum_format_version() for field in schema.fields)
    folder.mkdir(parents=True)
    return Lab.make(
        folder,
        schema,
        options=f"format_version: {version}\ncompact: false",
        changelog_version=max(2, required_version),
    )


def _merge(
    lab: Lab,
    rows: Sequence[dict[str, Any]],
    operation: str,
    sequence: int,
    deleted: Sequence[dict[str, Any]] = (),
) -> None:
    """Commit events and merge them."""
    events = [{**row, "cdc_operation": operation, "sequence_number": sequence_text(sequence)} for row in rows]
    last = {"cdc_operation": "DELETE", "sequence_number": sequence_text(sequence + 1)}
    events += [{**row, **last} for row in deleted]
    lab.commit(table_of(events, schema_to_pyarrow(lab.changelog.schema())))
    lab.merge()


def table_of(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Convert rows to Arrow, with types for which PyArrow can create values."""
    plain_schema = pa.schema([_plain_field(field) for field in schema])
    return pa.table(
        [pa.array([row.get(field.name) for row in rows], field.type) for field in plain_schema],
        schema=plain_schema,
    )


def _typed_mirror(
    lab: Lab, names: dict[str, tuple[str, ...]], number: str, rows: Sequence[dict[str, Any]]
) -> TypedMirror:
    columns = schema_to_pyarrow(lab.mirror.schema())
    all_names = [name for sample_names in names.values() for name in sample_names]
    expected = cells_of(table_of(rows, columns), columns, number, all_names)
    return TypedMirror(lab.mirror, names, number, columns, expected)


def _with_null(sample: Sample, column: Column) -> Column:
    return Column(column.kind, (*column.values, None)) if sample.nulls else column


def _values(columns: dict[str, Column], index: int) -> dict[str, Any]:
    return {name: column.values[index % len(column.values)] for name, column in columns.items()}


def _tuples(columns: Sequence[Column]) -> list[tuple[Any, ...]]:
    """Return distinct keys: all values of one column, or combinations that differ in one or several columns."""
    if len(columns) == 1:
        return [(value,) for value in columns[0].values]
    draws = (
        tuple(
            column.values[(draw // (1 + position) + draw) % len(column.values)]
            for position, column in enumerate(columns)
        )
        for draw in range(_KEYS_OF_MANY_COLUMNS)
    )
    return list(dict.fromkeys(draws))


def _combined(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _first_difference(found: list[bytes], expected: list[bytes]) -> str:
    if len(found) != len(expected):
        return f"{len(found)} rows, not {len(expected)}"
    row = next(row for row, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1])
    return f"row {row} is {found[row][:80]!r}, not {expected[row][:80]!r}"
