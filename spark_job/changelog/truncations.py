"""Truncations of the source among its events: which is the last one, and what lies before it.

A truncation has a place in the order of events (sequence, commit, file, row), and no key. Nothing before it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.cursor import Truncation
from icemirror.errors import REBUILD
from spark_job.changelog.bad_rows import sift
from spark_job.changelog.bulk import require_short
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.narrow import read_sequence
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.parquet_columns import check_ids, column_paths, iter_column, open_parquet
from spark_job.files.immutable import ReadOnce
from spark_job.files.round_trips import for_each
from spark_job.key_index.keys import U64, Indices, Mask
from spark_job.key_index.orders import compare_orders
from spark_job.lost_track import SourceTruncated

_MOST_FILES = 200_000  # that are remembered

_known: ReadOnce[tuple[int, ...]] = ReadOnce(_MOST_FILES)


@dataclass(frozen=True, slots=True)
class Found:
    """A truncation, and the file that tells of it."""

    truncation: Truncation
    path: str


def later(one: Truncation | None, other: Truncation | None) -> Truncation | None:
    """The later one of two."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda each: each.order)


def is_news(truncation: Truncation | None, followed: Truncation | None) -> bool:
    """Whether a truncation comes after the last one that was followed."""
    return truncation is not None and (followed is None or truncation.order > followed.order)


def last_truncation(
    sequence: Sequence[pa.Array], rows: Indices, file: ChangeFile, shape: ChangelogShape
) -> Truncation:
    """The last of some truncations of a file, by their sequence; raises `BadRows` where one has none."""
    parts = shape.sequence.encode(sequence, file.path, None, rows)
    return truncation_at(_last(parts, rows), file, shape)


def _last(parts: U64, rows: Indices) -> tuple[int, ...]:
    """The greatest sequence, and the last of the rows that have it."""
    return max((*told, row) for told, row in zip(parts.tolist(), rows.tolist(), strict=True))


def truncation_at(place: Sequence[int], file: ChangeFile, shape: ChangelogShape) -> Truncation:
    """By sequence and row in this file."""
    *sequence, row = place
    return Truncation(
        columns=shape.sequence.field_ids,
        sequence=tuple(sequence),
        commit=file.sequence_number,
        file=file.place,
        row=row,
    )


def are_before(truncation: Truncation, sequence: U64, row: NDArray[np.integer], file: ChangeFile) -> Mask:
    """Which events of a file lie before a truncation."""
    told = np.broadcast_to(np.array(truncation.sequence, dtype=np.uint64), sequence.shape)
    compared = compare_orders(sequence, told)
    here, there = (file.sequence_number, file.place), (truncation.commit, truncation.file)
    ties: Mask = row < truncation.row if here == there else np.full(len(row), here < there)
    before: Mask = (compared < 0) | ((compared == 0) & ties)
    return before


def not_followed(shape: ChangelogShape, path: str, row: int) -> SourceTruncated:
    """What is said of a truncation that the mirror has not followed yet."""
    values = ", ".join(repr(value) for value in sorted(filter(None, shape.truncates)))
    return SourceTruncated(
        f"{shape.changelog}: {path}: row {row} says that the source table was truncated ({values}). To follow that, "
        f"{REBUILD}; with on_truncate: rebuild a merge that comes to it does that. To pass over such rows instead, and "
        "keep all others, name the operation in ignore of operation_values (or have the connector write none: "
        "skipped.operations of Debezium), then `icemirror resume`."
    )


@dataclass(frozen=True, slots=True)
class _Sequences:
    """Sequence columns of some truncations, and their rows."""

    columns: tuple[pa.Array, ...]
    rows: Indices

    def __len__(self) -> int:
        return len(self.rows)

    def filter(self, kept: Mask) -> _Sequences:
        """Some of them."""
        mask = pa.array(kept)
        return _Sequences(tuple(column.filter(mask) for column in self.columns), self.rows[kept])


def find_truncation(io: FileIO, files: Sequence[ChangeFile], shape: ChangelogShape) -> Found | None:
    """The last truncation that these files tell of, if any does; of those that tell of none only operations are read.

    One without a place in the order is none: whoever merges it says so.
    """
    if not shape.truncates or shape.is_keyless or not files:
        return None
    places = for_each(lambda file: _read_once(io, file, shape), files, files[0].path, heavy=True)
    return _greatest(zip(files, places, strict=True), shape)


def known_truncation(files: Sequence[ChangeFile], shape: ChangelogShape) -> Found | None:
    """As `find_truncation`, of those of the files that this process has looked at before."""
    if not shape.truncates:
        return None
    return _greatest(((file, _known.find(_name(file, shape)) or ()) for file in files), shape)


def _greatest(places: Iterable[tuple[ChangeFile, tuple[int, ...]]], shape: ChangelogShape) -> Found | None:
    found = [Found(truncation_at(place, file, shape), file.path) for file, place in places if place]
    return max(found, key=lambda one: one.truncation.order, default=None)


def _name(file: ChangeFile, shape: ChangelogShape) -> str:
    """What was looked for, and where."""
    asked = shape.operation_id, sorted(filter(None, shape.truncates)), shape.sequence
    return f"{file.path} {asked}"


def _read_once(io: FileIO, file: ChangeFile, shape: ChangelogShape) -> tuple[int, ...]:
    """Sequence and row of the last truncation in a file; nothing where there is none."""
    return _known.get(_name(file, shape), lambda: _read(io, file, shape))


def _read(io: FileIO, file: ChangeFile, shape: ChangelogShape) -> tuple[int, ...]:
    if shape.operation_id is None or not file.events:
        return ()
    with open_parquet(io, file.path, file.events) as parquet:
        if shape.last_column_id is not None:
            check_ids(parquet, file.path, shape.last_column_id)
        wanted = (shape.operation_id, *shape.sequence.field_ids)
        names = column_paths(parquet, file.path, wanted)
        if shape.operation_id not in names:
            return ()  # older than the column: no row of it has an operation
        require_short(io, file.path, parquet, [".".join(name) for name in names.values()])
        rows = _truncating_rows(parquet, file.path, shape.operation_id, shape)
        if not len(rows):
            return ()
        columns = read_sequence(parquet, file.path, shape, rows)

    def convert(some: _Sequences) -> tuple[int, ...]:
        if not len(some):
            return ()
        # Numbered from 0: whoever sifts asks for the numbers of what it gave.
        parts = shape.sequence.encode(some.columns, file.path, None, np.arange(len(some)))
        return _last(parts, some.rows)

    last, _, _ = sift(_Sequences(tuple(columns), rows), convert)
    return last


def _truncating_rows(parquet: pq.ParquetFile, path: str, operation_id: int, shape: ChangelogShape) -> Indices:
    """A piece at a time: many files are looked at side by side, and each may have millions of events."""
    values = pa.array(sorted(filter(None, shape.truncates)), pa.large_string())
    found: list[Indices] = [np.empty(0, dtype=np.intp)]
    first = 0
    for operations in iter_column(parquet, path, operation_id):
        told = pa.compute.is_in(operations.cast(pa.large_string()), value_set=values)
        found.append(first + np.flatnonzero(told.to_numpy(zero_copy_only=False)))
        first += len(operations)
    return np.concatenate(found)
