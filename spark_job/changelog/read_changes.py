"""Read the events to merge of a changelog file. Only key, operation and sequence columns are read.

Events to merge: all but rejected rows and events before the followed truncation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import RECREATE, Corrupt, Invalid
from icemirror.tables.cursor import Truncation
from spark_job.changelog.bad_rows import BadRows, RejectReason, RowsByReason, convert_good_rows, row_numbers
from spark_job.changelog.changes import (
    NEW_KEY,
    OLD_KEY,
    Changes,
    concat_changes,
    keyless_changes,
    sort_by_position,
)
from spark_job.changelog.event_columns import (
    EventColumns,
    read_event_columns,
    read_operations,
    read_sequence_columns,
)
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.memory_bounds import refuse_long_values
from spark_job.changelog.shape import ChangelogShape, Operation
from spark_job.changelog.truncations import (
    events_before,
    is_new_truncation,
    last_truncation,
    refuse_new_truncation,
)
from spark_job.columns.parquet_columns import check_field_ids, column_paths, open_parquet
from spark_job.index.keys import U64, Indices, Keys, Mask, concat_keys
from spark_job.index.orders import greatest_order

_FIRST_COMMIT = 1  # sequence number of a table's first commit
_EVENT_SETTINGS = "primary_keys, operation_column and sequence_column"
_SETTINGS = {
    RejectReason.NULL_KEY: "primary_keys",
    RejectReason.NULL_OPERATION: "operation_column and operation_values",
    RejectReason.UNKNOWN_OPERATION: "operation_column and operation_values",
    RejectReason.NULL_SEQUENCE: "sequence_column",
    RejectReason.UNREADABLE_SEQUENCE: "sequence_column and sequence_format",
}


@dataclass(frozen=True, slots=True)
class FileEvents:
    """The events to merge of a file, the rejected rows, and how many events precede the followed truncation.

    `truncation`: the last one in the file.
    """

    changes: Changes
    bad: RowsByReason = ()
    before_truncation: int = 0
    truncation: Truncation | None = None


def read_changes(io: FileIO, file: ChangelogFile, ordinal: int, shape: ChangelogShape) -> Changes:
    """Return the events to merge of a file."""
    return read_file_events(io, file, ordinal, shape).changes


def read_file_events(io: FileIO, file: ChangelogFile, ordinal: int, shape: ChangelogShape) -> FileEvents:
    """Return the events to merge of a file, the rejected rows, and its last truncation."""
    columns = _read_columns(io, file, shape)
    with _add_advice(file, shape):
        return to_file_events(columns, file, ordinal, shape)


def validate_file(io: FileIO, file: ChangelogFile, shape: ChangelogShape) -> None:
    """Raise what a merge of the file would raise. Does not encode keys."""
    columns = _read_columns(io, file, shape)
    with _add_advice(file, shape):
        if shape.rejects_bad_rows:
            parsed, rows, _ = convert_good_rows(columns, lambda columns: _parse(columns, file, shape))
        else:
            parsed, rows = _parse(columns, file, shape), None
    refuse_new_truncation(_at_file_row(parsed.truncation, rows), file, shape)


def _at_file_row(truncation: Truncation | None, rows: Indices | None) -> Truncation | None:
    """Return the truncation with its row in the file instead of its index among `rows`."""
    if truncation is None or rows is None:
        return truncation
    return truncation.model_copy(update={"row": int(rows[truncation.row])})


def _read_columns(io: FileIO, file: ChangelogFile, shape: ChangelogShape) -> EventColumns:
    with open_parquet(io, file.path, file.events) as parquet:
        if shape.last_column_id is not None:
            check_field_ids(parquet, file.path, shape.last_column_id)
        paths = column_paths(parquet, file.path, shape.event_column_ids)
        with _add_advice(file, shape):
            refuse_long_values(io, file.path, parquet, [".".join(path) for path in paths.values()])
        return read_event_columns(parquet, file.path, shape)


@contextmanager
def _add_advice(file: ChangelogFile, shape: ChangelogShape) -> Iterator[None]:
    """Add what to do to an `Invalid` error: check the settings, then the rows. Move the path to the end."""
    try:
        yield
    except Invalid as error:
        problem = str(error).removesuffix(f": {file.path}")
        settings = _SETTINGS[error.reason] if isinstance(error, BadRows) else _EVENT_SETTINGS
        reject = (
            "set on_bad_row to quarantine, or "
            if isinstance(error, BadRows) and not shape.rejects_bad_rows
            else ""
        )
        raise Invalid(
            f"{shape.changelog}: {problem}. Check {settings} of the table first. If the rows are wrong, {reject}"
            f"{_rewrite_advice(file)}; then `icemirror resume`. The file: {file.path}"
        ) from error


def _rewrite_advice(file: ChangelogFile) -> str:
    if file.sequence_number == _FIRST_COMMIT:  # no earlier snapshot to roll back to
        return "recreate the changelog with corrected rows"
    return f"roll the changelog back to the snapshot before {file.snapshot_id} and append corrected rows"


@dataclass(frozen=True, slots=True)
class _ParsedEvents:
    """The events of a file: columns, rows, operations and sequences; and the last truncation."""

    columns: EventColumns
    row: NDArray[np.int64]
    operation: NDArray[np.uint8]
    sequence: U64
    truncation: Truncation | None = None


def _parse(columns: EventColumns, file: ChangelogFile, shape: ChangelogShape) -> _ParsedEvents:
    """Parse operations and sequences; raise `BadRows` for events without key, known operation or sequence."""
    parsed = read_operations(columns, shape, file.path)
    operation, null_is_lowest = parsed.operation, parsed.null_is_lowest
    row, truncation = np.arange(len(columns)), None
    if parsed.truncations is not None:
        rows = row_numbers(parsed.truncations)
        truncation = last_truncation(columns.filter(parsed.truncations).sequence, rows, file, shape)
    if parsed.kept is not None:
        row, columns, operation = row[parsed.kept], columns.filter(parsed.kept), operation[parsed.kept]
        null_is_lowest = None if null_is_lowest is None else null_is_lowest[parsed.kept]
    for key in columns.keys:
        if key.null_count:
            wrong = row[row_numbers(key.is_null().to_numpy(zero_copy_only=False))]
            raise BadRows(
                f"the key is NULL in row {int(wrong[0])}, so the event cannot be merged: {file.path}",
                RejectReason.NULL_KEY,
                wrong,
            )
    sequence = shape.sequence.encode(columns.sequence, file.path, null_is_lowest, row)
    return _ParsedEvents(columns, row, operation, sequence, truncation)


def to_file_events(
    columns: EventColumns, file: ChangelogFile, ordinal: int, shape: ChangelogShape
) -> FileEvents:
    """Convert event columns, whose rows are numbered from 0, to events to merge."""
    if not shape.rejects_bad_rows:
        return _drop_truncated_events(_convert(columns, file, ordinal, shape), file, shape)

    def convert(columns: EventColumns) -> FileEvents:
        if not len(columns):
            return FileEvents(keyless_changes(shape, ordinal, np.empty(0, dtype=np.intp)))
        return _convert(columns, file, ordinal, shape)

    events, rows, bad = convert_good_rows(columns, convert)
    if rows is not None:
        changes = replace(events.changes, row=rows[events.changes.row].astype(np.uint32))
        events = FileEvents(changes, truncation=_at_file_row(events.truncation, rows))
    return _drop_truncated_events(replace(events, bad=bad), file, shape)


def _drop_truncated_events(events: FileEvents, file: ChangelogFile, shape: ChangelogShape) -> FileEvents:
    """Drop events before the truncation that the mirror follows.

    Compaction moves a truncation to a later commit, together with events before it that have the same sequence: there
    its row decides.
    """
    truncation, moved, changes = shape.followed_truncation, events.truncation, events.changes
    if truncation is None:
        return events
    if moved is not None and moved.sequence == truncation.sequence and is_new_truncation(moved, truncation):
        truncation = moved
    before = events_before(truncation, changes.sequence, changes.row, file)
    if not before.any():
        return events
    count = int((before & ~changes.has_move(OLD_KEY)).sum())
    return replace(events, changes=changes.take(~before), before_truncation=count)


def _convert(columns: EventColumns, file: ChangelogFile, ordinal: int, shape: ChangelogShape) -> FileEvents:
    """Convert event columns to events, including those before a truncation."""
    parsed = _parse(columns, file, shape)
    columns, row = parsed.columns, parsed.row
    codes = shape.codec.encode(columns.keys)
    if not shape.codec.lossless:
        refuse_collisions(codes, columns.keys, file.path)
    changes = Changes(
        keys=codes,
        operation=parsed.operation,
        sequence=parsed.sequence,
        file=np.full(len(row), ordinal, dtype=np.uint32),
        row=row.astype(np.uint32),
    )
    if columns.old_keys:
        changes = _with_old_keys(changes, columns, shape, file.path)
    return FileEvents(changes, truncation=parsed.truncation)


def _with_old_keys(changes: Changes, columns: EventColumns, shape: ChangelogShape, path: str) -> Changes:
    """Add, next to each event that changes a key, a delete of the key that its row had before."""
    with_old_key = changes.operation == Operation.UPSERT
    for column in columns.old_keys:
        with_old_key &= column.is_valid().to_numpy(zero_copy_only=False)
    indices = np.flatnonzero(with_old_key)
    if not len(indices):
        return changes
    old = shape.codec.encode([column.take(pa.array(indices)) for column in columns.old_keys])
    new = changes.keys.take(indices)
    differs = old.lo != new.lo
    if old.hi is not None and new.hi is not None:
        differs |= old.hi != new.hi
    if not differs.any():
        return changes
    if not shape.codec.lossless:
        both = [
            pa.concat_arrays([key, column.take(pa.array(indices))])
            for key, column in zip(columns.keys, columns.old_keys, strict=True)
        ]
        refuse_collisions(concat_keys([changes.keys, old]), both, path)
    indices, old = indices[differs], old.take(differs)
    moves = np.zeros(len(changes), dtype=np.uint8)
    moves[indices] = NEW_KEY
    deletes = Changes(
        old,
        np.full(len(indices), Operation.DELETE, dtype=np.uint8),
        changes.sequence[indices],
        changes.file[indices],
        changes.row[indices],
        np.full(len(indices), OLD_KEY, dtype=np.uint8),
    )
    return sort_by_position(concat_changes([deletes, replace(changes, moves=moves)]))


def read_sequences(io: FileIO, file: ChangelogFile, shape: ChangelogShape) -> U64:
    """Return the sequences of the events to merge, one row of parts each.

    Other event columns are read only if rows may be rejected.
    """
    if shape.rejects_bad_rows:
        return read_changes(io, file, 0, shape).sequence
    with open_parquet(io, file.path, file.events) as parquet:
        columns = read_sequence_columns(parquet, file.path, shape)
    return shape.sequence.encode(columns, file.path, np.ones(len(columns[0]), dtype=np.bool_))


def newest_order(io: FileIO, files: Iterable[ChangelogFile], shape: ChangelogShape) -> tuple[int, ...]:
    """Return the greatest order of any event in these files; only the sequence is read."""
    newest = (0,) * (shape.sequence.parts + 1)
    for file in files:
        if file.events and len(sequences := read_sequences(io, file, shape)):
            newest = max(newest, (*greatest_order(sequences), file.sequence_number))
    return newest


def refuse_collisions(codes: Keys, keys: Sequence[pa.Array], path: str) -> None:
    """Refuse different keys with the same hash: one would be taken for an older event of the other."""
    left, right = equal_codes(codes)
    differ = np.flatnonzero(~equal_values(keys, left, right))
    if len(differ):
        raise Corrupt(
            f"rows {int(left[differ[0]])} and {int(right[differ[0]])} have different keys with the same hash; nothing "
            f"was committed. A new mirror uses another salt: {RECREATE}. The file: {path}"
        )


def equal_codes(codes: Keys) -> tuple[Indices, Indices]:
    """Return pairs of indices with equal codes; the pairs connect all indices of a code."""
    order = np.argsort(codes.lo if codes.hi is None else codes.hi)
    same = np.flatnonzero(codes.take(order).same_as_next())
    return order[same], order[same + 1]


def equal_values(columns: Sequence[pa.Array], left: Indices, right: Indices) -> Mask:
    """Return, pair by pair, whether the rows `left` and `right` have equal values in all columns."""
    same = np.ones(len(left), dtype=np.bool_)
    for column in columns:
        equal = pc.equal(column.take(pa.array(left)), column.take(pa.array(right)))
        same &= equal.to_numpy(zero_copy_only=False)
    return same
