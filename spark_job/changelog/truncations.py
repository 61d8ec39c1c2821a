"""Truncations of the source among the events: find the last one, and the events before it.

A truncation has an order (sequence, commit, file, row) like every event, but no key. Events before it are not merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import REBUILD_ADVICE, Invalid
from icemirror.tables.cursor import Truncation
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.bad_rows import convert_good_rows
from spark_job.changelog.event_columns import read_sequence_columns
from spark_job.changelog.memory_bounds import refuse_long_values
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.arrays import U64, Indices, Mask
from spark_job.columns.parquet_columns import check_field_ids, column_paths, iter_column, open_parquet
from spark_job.index.orders import compare_orders
from spark_job.storage.file_cache import FileCache
from spark_job.storage.parallel import map_parallel

_MAX_CACHED_FILES = 200_000

_last_truncation_cache: FileCache[tuple[int, ...]] = FileCache(_MAX_CACHED_FILES)


@dataclass(frozen=True, slots=True)
class LocatedTruncation:
    """A truncation, and the file that contains it."""

    truncation: Truncation
    path: str


def is_new_truncation(truncation: Truncation | None, applied: Truncation | None) -> bool:
    """Return whether a truncation comes after the last one that the mirror has applied."""
    return truncation is not None and (applied is None or truncation.order > applied.order)


def last_truncation(
    sequence: Sequence[pa.Array], rows: Indices, file: ChangelogFile, shape: ChangelogShape
) -> Truncation:
    """Return the last truncation among these rows of a file; raise `BadRows` if one has no sequence."""
    parts = shape.sequence.encode(sequence, file.path, None, rows)
    return truncation_at(_greatest_position(parts, rows), file, shape)


def _greatest_position(parts: U64, rows: Indices) -> tuple[int, ...]:
    """Return the greatest sequence, followed by the last row that has it."""
    return max((*sequence, row) for sequence, row in zip(parts.tolist(), rows.tolist(), strict=True))


def truncation_at(position: Sequence[int], file: ChangelogFile, shape: ChangelogShape) -> Truncation:
    """Return the truncation of a file at this position: its sequence, followed by its row."""
    *sequence, row = position
    return Truncation(
        columns=shape.sequence.field_ids,
        sequence=tuple(sequence),
        commit=file.sequence_number,
        file=file.index_in_commit,
        row=row,
    )


def events_before(
    truncation: Truncation, sequence: U64, row: NDArray[np.integer], file: ChangelogFile
) -> Mask:
    """Return which events of a file come before a truncation."""
    truncation_sequence = np.broadcast_to(np.array(truncation.sequence, dtype=np.uint64), sequence.shape)
    comparison = compare_orders(sequence, truncation_sequence)
    location = (file.sequence_number, file.index_in_commit)
    truncation_location = (truncation.commit, truncation.file)
    # Between equal sequences, the position in the changelog decides.
    is_earlier_position: Mask = (
        row < truncation.row
        if location == truncation_location
        else np.full(len(row), location < truncation_location)
    )
    is_before: Mask = (comparison < 0) | ((comparison == 0) & is_earlier_position)
    return is_before


def describe_truncation(shape: ChangelogShape, path: str, row: int) -> str:
    """Return an error text for a truncation that the mirror has not applied, with what to do."""
    values = ", ".join(repr(value) for value in sorted(filter(None, shape.truncate_operations)))
    return (
        f"{shape.changelog_name}: row {row} reports a truncation of the source ({values}). To apply it, "
        f"{REBUILD_ADVICE}; `on_truncate: rebuild` does this when a merge reaches it. "
        "To ignore truncations, add the operation to `operation_values.ignore` (Debezium: "
        f"`skipped.operations`), then `icemirror resume`. The file: {path}"
    )


def refuse_new_truncation(truncation: Truncation | None, file: ChangelogFile, shape: ChangelogShape) -> None:
    """Raise `Invalid` at a truncation that the mirror has not applied yet."""
    if truncation is not None and is_new_truncation(truncation, shape.applied_truncation):
        raise Invalid(describe_truncation(shape, file.path, truncation.row))


@dataclass(frozen=True, slots=True)
class _TruncationRows:
    """Rows of a file that report a truncation, with their sequence columns."""

    sequence: tuple[pa.Array, ...]
    rows: Indices

    def __len__(self) -> int:
        return len(self.rows)

    def filter(self, selected: Mask) -> _TruncationRows:
        """Return the truncations where `selected` is true."""
        mask = pa.array(selected)
        return _TruncationRows(tuple(column.filter(mask) for column in self.sequence), self.rows[selected])


def find_truncation(
    io: FileIO, files: Sequence[ChangelogFile], shape: ChangelogShape
) -> LocatedTruncation | None:
    """Return the last truncation in these files, if any; files without one are read only for their operations.

    A truncation without a valid sequence is skipped here; the merge reports it.
    """
    if not shape.truncate_operations or shape.is_keyless or not files:
        return None
    positions = map_parallel(lambda file: _read_cached(io, file, shape), files, files[0].path, cpu_bound=True)
    truncations = [
        LocatedTruncation(truncation_at(position, file, shape), file.path)
        for file, position in zip(files, positions, strict=True)
        if position
    ]
    return max(truncations, key=lambda located: located.truncation.order, default=None)


def _cache_key(file: ChangelogFile, shape: ChangelogShape) -> str:
    """Return a cache key of the file and of the columns and values that were searched."""
    searched = shape.operation_id, sorted(filter(None, shape.truncate_operations)), shape.sequence
    return f"{file.path} {searched}"


def _read_cached(io: FileIO, file: ChangelogFile, shape: ChangelogShape) -> tuple[int, ...]:
    """Return sequence and row of the last truncation in a file; empty if there is none."""
    return _last_truncation_cache.get(_cache_key(file, shape), lambda: _read_last_truncation(io, file, shape))


def _read_last_truncation(io: FileIO, file: ChangelogFile, shape: ChangelogShape) -> tuple[int, ...]:
    if shape.operation_id is None or not file.events:
        return ()
    with open_parquet(io, file.path, file.events) as parquet:
        if shape.last_column_id is not None:
            check_field_ids(parquet, file.path, shape.last_column_id)
        field_ids = (shape.operation_id, *shape.sequence.field_ids)
        paths = column_paths(parquet, file.path, field_ids)
        if shape.operation_id not in paths:
            return ()  # the file is older than the column: none of its rows has an operation
        refuse_long_values(io, file.path, parquet, [".".join(path) for path in paths.values()])
        rows = _find_truncating_rows(parquet, file.path, shape.operation_id, shape)
        if not len(rows):
            return ()
        columns = read_sequence_columns(parquet, file.path, shape, rows)

    def convert(truncations: _TruncationRows) -> tuple[int, ...]:
        if not len(truncations):
            return ()
        # Rows numbered from 0, as `convert_good_rows` requires.
        parts = shape.sequence.encode(truncations.sequence, file.path, None, np.arange(len(truncations)))
        return _greatest_position(parts, truncations.rows)

    last_position, _, _ = convert_good_rows(_TruncationRows(tuple(columns), rows), convert)
    return last_position


def _find_truncating_rows(
    parquet: pq.ParquetFile, path: str, operation_id: int, shape: ChangelogShape
) -> Indices:
    """Return the rows that report a truncation.

    Reads in batches: many files are read in parallel, and each may have millions of events.
    """
    values = pa.array(sorted(filter(None, shape.truncate_operations)), pa.large_string())
    rows: list[Indices] = [np.empty(0, dtype=np.intp)]
    first = 0
    for operations in iter_column(parquet, path, operation_id):
        matches = pa.compute.is_in(operations.cast(pa.large_string()), value_set=values)
        rows.append(first + np.flatnonzero(matches.to_numpy(zero_copy_only=False)))
        first += len(operations)
    return np.concatenate(rows)
