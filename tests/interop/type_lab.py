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

MOST_KEY_COLUMNS = 8
_KEY = "id"
_KEYS_OF_MANY_COLUMNS = 24

# Column name → cells as canonical bytes, in the order of the row's number.
Cells = dict[str, list[bytes]]


@dataclass(frozen=True)
class Typed:
    """A mirror, the columns of each sample in it, and what they must hold. A number identifies each row."""

    mirror: Table
    names: dict[str, tuple[str, ...]]
    number: str
    columns: pa.Schema
    expected: Cells

    def wrong(self, rows: pa.Table, names: Sequence[str]) -> str | None:
        """How a reader's rows of these columns differ; None if they do not."""
        try:
            found = cells_of(rows, self.columns, self.number, names)
        except (ValueError, KeyError, pa.ArrowException) as error:
            return f"{type(error).__name__}: {error}"
        for name in (self.number, *names):
            if found[name] != self.expected[name]:
                return f"{name}: {_first_difference(found[name], self.expected[name])}"
        return None


def mirror_columns(folder: Path, samples: Sequence[Sample], version: int) -> Typed:
    """One mirror with all columns of the samples, each row with one value of each."""
    names: dict[str, tuple[str, ...]] = {}
    columns: dict[str, Column] = {}
    for sample in samples:
        of_it = {f"c{len(columns) + at}": _with_null(sample, one) for at, one in enumerate(sample.columns)}
        names[sample.name] = tuple(of_it)
        columns |= of_it
    half = max(len(column.values) for column in columns.values())
    count = 2 * half  # the first half is updated, so that the second one still has every value
    lab = _make(
        folder, [(_KEY, LongType()), *((name, one.kind) for name, one in columns.items())], (_KEY,), version
    )
    numbers = {key: key for key in range(count)}
    _merge(lab, [{_KEY: key, **_values(columns, at)} for key, at in numbers.items()], "INSERT", 1)
    updated = {key: key + 1 for key in range(half)} | {count: 0}
    _merge(
        lab,
        [{_KEY: key, **_values(columns, at)} for key, at in updated.items()],
        "UPDATE",
        2,
        deleted=[{_KEY: key} for key in (1, count)],
    )
    alive = {key: at for key, at in (numbers | updated).items() if key not in (1, count)}
    rows = [{_KEY: key, **_values(columns, at)} for key, at in sorted(alive.items())]
    return _typed(lab, names, _KEY, rows)


def mirror_keys(folder: Path, columns: Sequence[Column], version: int) -> Typed:
    """One mirror whose key is these columns; `number` identifies its rows."""
    named = {f"k{at}": column for at, column in enumerate(columns)}
    number = "number"
    lab = _make(
        folder,
        [*((name, one.kind) for name, one in named.items()), (number, LongType())],
        tuple(named),
        version,
    )
    keys = [dict(zip(named, values, strict=True)) for values in _tuples(columns)]
    _merge(lab, [{**key, number: at} for at, key in enumerate(keys)], "INSERT", 1)
    changed = {at: 1000 + at for at in range(0, len(keys), 2)}
    gone = {at: 2000 + at for at in range(len(keys)) if at % 3 == 1}
    _merge(
        lab,
        [{**keys[at], number: to} for at, to in changed.items()],
        "UPDATE",
        2,
        deleted=[keys[at] for at in gone],
    )
    _merge(lab, [{**keys[at], number: to} for at, to in gone.items()], "INSERT", 4)
    numbers = {at: at for at in range(len(keys))} | changed | gone
    rows = [{**keys[at], number: to} for at, to in numbers.items()]
    return _typed(lab, {"key": tuple(named)}, number, sorted(rows, key=lambda row: row[number]))


def key_tables(sample: Sample) -> list[Sequence[Column]]:
    """The keys to test of a sample: its first column, and all of its columns, at most eight."""
    columns = sample.columns
    if len(columns) <= 1:
        return [columns]
    chunks = [columns[at : at + MOST_KEY_COLUMNS] for at in range(0, len(columns), MOST_KEY_COLUMNS)]
    return chunks if sample.name.startswith("8 columns") else [columns[:1], *chunks]


def cells_of(rows: pa.Table, columns: pa.Schema, number: str, names: Sequence[str]) -> Cells:
    """The cells of some columns, ordered by the row's number."""
    ordered = rows.sort_by(number) if rows.num_rows else rows
    return {
        name: render_cells(_whole(ordered[name]), columns.field(name).type).to_pylist()
        for name in (number, *names)
    }


def plain(kind: pa.DataType) -> pa.DataType:
    """A type without Arrow's extensions: PyArrow cannot make values of them inside of others."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(part) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain_field(kind.value_field))
    return kind


def _plain_field(part: pa.Field) -> pa.Field:
    return part.with_type(plain(part.type))


def _make(folder: Path, columns: Sequence[tuple[str, Any]], keys: tuple[str, ...], version: int) -> Lab:
    schema = changelog_schema(*columns, keys=keys)
    needed = max(field.field_type.minimum_format_version() for field in schema.fields)
    folder.mkdir(parents=True)
    return Lab.make(
        folder, schema, options=f"format_version: {version}\ncompact: false", changelog_version=max(2, needed)
    )


def _merge(
    lab: Lab,
    rows: Sequence[dict[str, Any]],
    operation: str,
    sequence: int,
    deleted: Sequence[dict[str, Any]] = (),
) -> None:
    """A commit of events, merged."""
    events = [{**row, "cdc_operation": operation, "sequence_number": sequence_text(sequence)} for row in rows]
    last = {"cdc_operation": "DELETE", "sequence_number": sequence_text(sequence + 1)}
    events += [{**row, **last} for row in deleted]
    lab.commit(table_of(events, schema_to_pyarrow(lab.changelog.schema())))
    lab.merge()


def table_of(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows as Arrow, with types that PyArrow can make values of."""
    plainly = pa.schema([_plain_field(part) for part in schema])
    return pa.table(
        [pa.array([row.get(part.name) for row in rows], part.type) for part in plainly], schema=plainly
    )


def _typed(lab: Lab, names: dict[str, tuple[str, ...]], number: str, rows: Sequence[dict[str, Any]]) -> Typed:
    columns = schema_to_pyarrow(lab.mirror.schema())
    every = [name for of_one in names.values() for name in of_one]
    expected = cells_of(table_of(rows, columns), columns, number, every)
    return Typed(lab.mirror, names, number, columns, expected)


def _with_null(sample: Sample, column: Column) -> Column:
    return Column(column.kind, (*column.values, None)) if sample.nulls else column


def _values(columns: dict[str, Column], at: int) -> dict[str, Any]:
    return {name: column.values[at % len(column.values)] for name, column in columns.items()}


def _tuples(columns: Sequence[Column]) -> list[tuple[Any, ...]]:
    """Distinct keys: all values of one column, or combinations that differ in one column or in several."""
    if len(columns) == 1:
        return [(value,) for value in columns[0].values]
    draws = (
        tuple(one.values[(at // (1 + place) + at) % len(one.values)] for place, one in enumerate(columns))
        for at in range(_KEYS_OF_MANY_COLUMNS)
    )
    return list(dict.fromkeys(draws))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _first_difference(found: list[bytes], expected: list[bytes]) -> str:
    if len(found) != len(expected):
        return f"{len(found)} rows, not {len(expected)}"
    at = next(at for at, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1])
    return f"row {at} is {found[at][:80]!r}, not {expected[at][:80]!r}"
