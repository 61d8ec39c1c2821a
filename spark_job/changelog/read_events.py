"""Read the events to merge of a changelog file. Only key, operation and sequence columns are read.

Events to merge: all but rejected rows and events before the applied truncation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import Invalid
from icemirror.tables.cursor import Truncation
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.bad_rows import BadFile, BadRows, RejectReason, RowsByReason, convert_good_rows
from spark_job.changelog.event_batch import (
    NEW_KEY_UPSERT,
    OLD_KEY_DELETE,
    EventBatch,
    concat_events,
    marker_events,
    sort_by_position,
)
from spark_job.changelog.event_columns import (
    EventColumns,
    parse_operations,
    read_event_columns,
    read_sequence_columns,
)
from spark_job.changelog.key_collisions import refuse_collisions
from spark_job.changelog.memory_bounds import refuse_long_values
from spark_job.changelog.shape import ChangelogShape, Operation
from spark_job.changelog.truncations import (
    events_before,
    is_new_truncation,
    last_truncation,
    refuse_new_truncation,
)
from spark_job.columns.arrays import U64, Indices
from spark_job.columns.parquet_columns import check_field_ids, column_paths, open_parquet
from spark_job.index.keys import concat_keys
from spark_job.index.orders import greatest_order

_FIRST_COMMIT = 1  # sequence number of a table's first commit
_EVENT_SETTINGS = "primary_keys, operation_column and sequence_column"
_SETTINGS_BY_REASON = {
    RejectReason.NULL_KEY: "primary_keys",
    RejectReason.NULL_OPERATION: "operation_column and operation_values",
    RejectReason.UNKNOWN_OPERATION: "operation_column and operation_values",
    RejectReason.NULL_SEQUENCE: "sequence_column",
    RejectReason.UNREADABLE_SEQUENCE: "sequence_column and sequence_format",
}


@dataclass(frozen=True, slots=True)
class FileEvents:
    """A file's mergeable events, its rejected rows, and the number of events before the applied truncation.

    `truncation`: the last one in the file.
    """

    events: EventBatch
    rejected: RowsByReason = ()
    before_truncation: int = 0
    truncation: Truncation | None = None


def read_events(io: FileIO, file: ChangelogFile, ordinal: int, shape: ChangelogShape) -> EventBatch:
    """Return a file's mergeable events."""
    return read_file_events(io, file, ordinal, shape).events


def read_file_events(io: FileIO, file: ChangelogFile, ordinal: int, shape: ChangelogShape) -> FileEvents:
    """Return a file's mergeable events, its rejected rows, and its last truncation."""
    columns = _read_columns(io, file, shape)
    with _add_advice(file, shape):
        return to_file_events(columns, file, ordinal, shape)


def validate_file(io: FileIO, file: ChangelogFile, shape: ChangelogShape) -> None:
    """Check a file as a merge would, without encoding keys; raise what the merge would raise."""
    columns = _read_columns(io, file, shape)
    with _add_advice(file, shape):
        if shape.rejects_bad_rows:
            parsed, good_rows, _ = convert_good_rows(
                columns, lambda columns: _parse_events(columns, file, shape)
            )
        else:
            parsed, good_rows = _parse_events(columns, file, shape), None
    refuse_new_truncation(_with_file_row(parsed.truncation, good_rows), file, shape)


def _with_file_row(truncation: Truncation | None, rows: Indices | None) -> Truncation | None:
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
    """Add to an `Invalid` error what to do: check the settings, then the rows."""
    try:
        yield
    except Invalid as error:
        problem = error.problem if isinstance(error, BadFile) else str(error)
        settings = _SETTINGS_BY_REASON[error.reason] if isinstance(error, BadRows) else _EVENT_SETTINGS
        reject_advice = (
            "set on_bad_row to quarantine, or "
            if isinstance(error, BadRows) and not shape.rejects_bad_rows
            else ""
        )
        raise Invalid(
            f"{shape.changelog_name}: {problem}. Check {settings} of the table first. If the rows are wrong, "
            f"{reject_advice}{_rewrite_advice(file)}; then `icemirror resume`. The file: {file.path}"
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


def _parse_events(columns: EventColumns, file: ChangelogFile, shape: ChangelogShape) -> _ParsedEvents:
    """Return operations and sequences; raise `BadRows` for events without key, known operation or sequence."""
    parsed = parse_operations(columns, shape, file.path)
    operation, null_is_lowest = parsed.operation, parsed.null_is_lowest
    row, truncation = np.arange(len(columns)), None
    if parsed.truncations is not None:
        rows = np.flatnonzero(parsed.truncations)
        truncation = last_truncation(columns.filter(parsed.truncations).sequence, rows, file, shape)
    if parsed.is_event is not None:
        is_event = parsed.is_event
        row, columns, operation = row[is_event], columns.filter(is_event), operation[is_event]
        null_is_lowest = None if null_is_lowest is None else null_is_lowest[is_event]
    for key in columns.keys:
        if key.null_count:
            bad_rows = row[np.flatnonzero(key.is_null().to_numpy(zero_copy_only=False))]
            raise BadRows(
                f"the key is NULL in row {int(bad_rows[0])}, so the event cannot be merged",
                file.path,
                RejectReason.NULL_KEY,
                bad_rows,
            )
    sequence = shape.sequence.encode(columns.sequence, file.path, null_is_lowest, row)
    return _ParsedEvents(columns, row, operation, sequence, truncation)


def to_file_events(
    columns: EventColumns, file: ChangelogFile, ordinal: int, shape: ChangelogShape
) -> FileEvents:
    """Return the mergeable events of event columns, whose rows are numbered from 0."""
    if not shape.rejects_bad_rows:
        return _drop_truncated_events(_encode_events(columns, file, ordinal, shape), file, shape)

    def convert(columns: EventColumns) -> FileEvents:
        if not len(columns):
            return FileEvents(marker_events(shape, ordinal, np.empty(0, dtype=np.intp)))
        return _encode_events(columns, file, ordinal, shape)

    file_events, good_rows, rejected = convert_good_rows(columns, convert)
    if good_rows is not None:
        events = file_events.events
        file_events = FileEvents(
            replace(events, row=good_rows[events.row].astype(np.uint32)),
            truncation=_with_file_row(file_events.truncation, good_rows),
        )
    return _drop_truncated_events(replace(file_events, rejected=rejected), file, shape)


def _drop_truncated_events(file_events: FileEvents, file: ChangelogFile, shape: ChangelogShape) -> FileEvents:
    """Return the events without those before the truncation that the mirror has applied.

    Compaction moves a truncation to a later commit, together with events before it that have the same sequence: there
    its row decides.
    """
    truncation, truncation_in_file = shape.applied_truncation, file_events.truncation
    if truncation is None:
        return file_events
    if (
        truncation_in_file is not None
        and truncation_in_file.sequence == truncation.sequence
        and is_new_truncation(truncation_in_file, truncation)
    ):
        truncation = truncation_in_file
    events = file_events.events
    is_truncated = events_before(truncation, events.sequence, events.row, file)
    if not is_truncated.any():
        return file_events
    return replace(
        file_events,
        events=events.take(~is_truncated),
        before_truncation=events.take(is_truncated).source_count,
    )


def _encode_events(
    columns: EventColumns, file: ChangelogFile, ordinal: int, shape: ChangelogShape
) -> FileEvents:
    """Return the events of event columns, including those before a truncation."""
    parsed = _parse_events(columns, file, shape)
    columns, row = parsed.columns, parsed.row
    codes = shape.key_codec.encode(columns.keys)
    if not shape.key_codec.is_lossless:
        refuse_collisions(codes, columns.keys, file.path)
    events = EventBatch(
        keys=codes,
        operation=parsed.operation,
        sequence=parsed.sequence,
        file=np.full(len(row), ordinal, dtype=np.uint32),
        row=row.astype(np.uint32),
    )
    if columns.old_keys:
        events = _with_old_keys(events, columns, shape, file.path)
    return FileEvents(events, truncation=parsed.truncation)


def _with_old_keys(events: EventBatch, columns: EventColumns, shape: ChangelogShape, path: str) -> EventBatch:
    """Return the events with a delete of the old key before each event that changes a key."""
    has_old_key = events.operation == Operation.UPSERT
    for column in columns.old_keys:
        has_old_key &= column.is_valid().to_numpy(zero_copy_only=False)
    indices = np.flatnonzero(has_old_key)
    if not len(indices):
        return events
    old_keys = shape.key_codec.encode([column.take(pa.array(indices)) for column in columns.old_keys])
    new_keys = events.keys.take(indices)
    differs = old_keys.lo != new_keys.lo
    if old_keys.hi is not None and new_keys.hi is not None:
        differs |= old_keys.hi != new_keys.hi
    if not differs.any():
        return events
    if not shape.key_codec.is_lossless:
        all_keys = [
            pa.concat_arrays([key, column.take(pa.array(indices))])
            for key, column in zip(columns.keys, columns.old_keys, strict=True)
        ]
        refuse_collisions(concat_keys([events.keys, old_keys]), all_keys, path)
    indices, old_keys = indices[differs], old_keys.take(differs)
    key_change_flags = np.zeros(len(events), dtype=np.uint8)
    key_change_flags[indices] = NEW_KEY_UPSERT
    deletes = EventBatch(
        old_keys,
        np.full(len(indices), Operation.DELETE, dtype=np.uint8),
        events.sequence[indices],
        events.file[indices],
        events.row[indices],
        np.full(len(indices), OLD_KEY_DELETE, dtype=np.uint8),
    )
    return sort_by_position(concat_events([deletes, replace(events, key_change_flags=key_change_flags)]))


def read_sequences(io: FileIO, file: ChangelogFile, shape: ChangelogShape) -> U64:
    """Return the sequences of the events to merge, one row of parts each.

    Other event columns are read only if rows may be rejected.
    """
    if shape.rejects_bad_rows:
        return read_events(io, file, 0, shape).sequence
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
