"""Reads the events of one key from changelog files: key columns first, then all columns of the rows found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from icemirror.errors import Corrupt, Invalid, insert_table_name
from icemirror.tables.cursor import Truncation
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.bad_rows import RejectReason
from spark_job.changelog.event_batch import EventBatch, concat_events
from spark_job.changelog.event_columns import EventColumns, read_event_columns
from spark_job.changelog.read_events import FileEvents, to_file_events
from spark_job.changelog.read_rows import file_projection, read_selected_rows
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.truncations import events_before
from spark_job.columns.arrays import Mask
from spark_job.columns.field_map import FieldMap
from spark_job.columns.json_values import Json, row_as_json, value_as_json
from spark_job.columns.parquet_columns import (
    check_field_ids,
    column_paths,
    open_parquet,
    read_columns,
    row_group_starts,
)
from spark_job.commands.explain.event_outcomes import KeyEvents
from spark_job.commands.explain.requested_key import RequestedKey
from spark_job.commands.report_model import UnreadableFile, without_path
from spark_job.commands.verify.row_digest import digest_rows
from spark_job.index.keys import Keys
from spark_job.storage.parallel import map_parallel
from spark_job.storage.translate_errors import translate_errors

_FILES_AT_ONCE = 16
_MAX_VALUE_BYTES = 64 << 20

OnFilesRead = Callable[[int], None]
"""Called with how many more files were read."""


@dataclass(frozen=True)
class EventDetail:
    """What the report shows of an event besides its order. `values`: None if they take too much memory."""

    operation: str
    sequence: dict[str, Json]
    digest: int
    values: dict[str, Json] | None
    bytes: int = 0


@dataclass(frozen=True)
class EventFiles:
    """The files of the changelog, merged ones first, and how their rows map to the mirror.

    `merged_count`: how many files are merged. `unmerged_truncation`: the last one that waits to be merged.
    """

    table: str
    io: FileIO
    files: tuple[ChangelogFile, ...]
    merged_count: int
    shape: ChangelogShape
    field_map: FieldMap
    schema: Schema
    unmerged_truncation: Truncation | None = None

    @property
    def shape_with_truncated_events(self) -> ChangelogShape:
        """The shape that also reads events before a truncation, since they are reported too."""
        return self.shape.without_truncations()


@dataclass(frozen=True)
class RejectedEvent:
    """An event of the key that cannot be merged: the ordinal of its file, the row, and the reason."""

    file: int
    row: int
    reason: RejectReason


@dataclass(frozen=True)
class FoundEvents:
    """The events, details of each, and unreadable files. `values_omitted`: some values are omitted."""

    events: KeyEvents
    details: tuple[EventDetail, ...]
    unreadable: tuple[UnreadableFile, ...]
    values_omitted: bool = False
    rejected: tuple[RejectedEvent, ...] = ()


@dataclass(frozen=True)
class _EventsInFile:
    """The events of the key in one file."""

    batch: EventBatch
    details: list[EventDetail] = field(default_factory=list)
    rejected: list[RejectedEvent] = field(default_factory=list)


def find_events(
    source: EventFiles, key: RequestedKey, ordinals: Sequence[int], files_read: OnFilesRead
) -> FoundEvents:
    """Return the events of the key in the files with these ordinals."""
    batches: list[EventBatch] = []
    details: list[EventDetail] = []
    unreadable: list[UnreadableFile] = []
    rejected: list[RejectedEvent] = []
    value_bytes, values_omitted = 0, False

    def read(ordinal: int) -> _EventsInFile | UnreadableFile:
        path = source.files[ordinal].path
        try:
            with translate_errors(path):
                return _read_file(source, key, ordinal)
        except (Corrupt, Invalid) as error:
            insert_table_name(error, source.table)
            return UnreadableFile(path=path, what=without_path(str(error), path))

    for start in range(0, len(ordinals), _FILES_AT_ONCE):
        chunk = ordinals[start : start + _FILES_AT_ONCE]
        for file_events in map_parallel(read, chunk, source.files[chunk[0]].path):
            if isinstance(file_events, UnreadableFile):
                unreadable.append(file_events)
                continue
            batches.append(file_events.batch)
            rejected += file_events.rejected
            for detail in file_events.details:
                value_bytes += detail.bytes
                values_omitted |= value_bytes > _MAX_VALUE_BYTES
                details.append(replace(detail, values=None) if value_bytes > _MAX_VALUE_BYTES else detail)
        files_read(len(chunk))
    batch = concat_events(batches) if batches else _empty_batch(source.shape, key)
    commit_of_file = np.array([file.sequence_number for file in source.files], dtype=np.uint64)
    events = KeyEvents(
        batch,
        commit_of_file[batch.file],
        tuple(detail.digest for detail in details),
        int((batch.file < source.merged_count).sum()),
        frozenset(_find_truncated(source, batch)),
    )
    return FoundEvents(events, tuple(details), tuple(unreadable), values_omitted, tuple(rejected))


def _find_truncated(source: EventFiles, batch: EventBatch) -> Iterator[int]:
    """Yield the events before a truncation; for waiting events also one that waits itself."""
    applied = source.shape.applied_truncation
    for event, ordinal in enumerate(batch.file.tolist()):
        truncation = (
            applied
            if ordinal < source.merged_count
            else _later_truncation(applied, source.unmerged_truncation)
        )
        only = slice(event, event + 1)
        if truncation is not None and bool(
            events_before(truncation, batch.sequence[only], batch.row[only], source.files[ordinal])[0]
        ):
            yield event


def _later_truncation(left: Truncation | None, right: Truncation | None) -> Truncation | None:
    if left is None or right is None:
        return left or right
    return max(left, right, key=lambda truncation: truncation.order)


def _empty_batch(shape: ChangelogShape, key: RequestedKey) -> EventBatch:
    """Return a batch without events."""
    no_values = np.empty(0, dtype=np.uint32)
    keys = shape.key_codec.encode(key.arrays).take(slice(0, 0))
    sequence = np.empty((0, shape.sequence.parts), dtype=np.uint64)
    return EventBatch(keys, no_values.astype(np.uint8), sequence, no_values, no_values)


def _read_file(source: EventFiles, key: RequestedKey, ordinal: int) -> _EventsInFile:
    """Return the events of the key in one file."""
    file, shape = source.files[ordinal], source.shape_with_truncated_events
    with open_parquet(source.io, file.path, file.events) as parquet:
        if shape.last_column_id is not None:
            check_field_ids(parquet, file.path, shape.last_column_id)
        rows = find_rows(parquet, file.path, shape.key_ids, key)
        if shape.old_key_ids and len(column_paths(parquet, file.path, shape.old_key_ids)) == len(key.columns):
            rows = np.union1d(rows, find_rows(parquet, file.path, shape.old_key_ids, key))
        if not len(rows):
            return _EventsInFile(_empty_batch(shape, key))
        event_columns = read_event_columns(parquet, file.path, shape, rows)
        file_events = _to_file_events(event_columns, file, ordinal, rows, shape)
        rejected = [
            RejectedEvent(ordinal, int(rows[index]), reason)
            for reason, indices in file_events.rejected
            for index in indices
        ]
        batch = file_events.events.take(_has_key(file_events.events.keys, shape.key_codec.encode(key.arrays)))
        if not len(batch):
            return _EventsInFile(_empty_batch(shape, key), rejected=rejected)
        tables = read_selected_rows(
            source.io,
            parquet,
            rows,
            file_projection(file, source.field_map, shape.defaults),
            schema_to_pyarrow(source.schema),
        )
        details = [detail for table in tables for detail in _describe_rows(table)]
    names = [column.name for column in shape.sequence.columns]
    row_indices: list[int] = batch.row.tolist()
    complete_details = [
        replace(
            details[index],
            operation=_operation_text(event_columns, index),
            sequence={
                name: value_as_json(values[index])
                for name, values in zip(names, event_columns.sequence, strict=True)
            },
        )
        for index in row_indices
    ]
    return _EventsInFile(replace(batch, row=rows[row_indices].astype(np.uint32)), complete_details, rejected)


def _has_key(keys: Keys, key: Keys) -> Mask:
    """Return which events have this key: an event that moves a row has two keys."""
    is_equal_low: Mask = keys.lo == key.lo[0]
    return is_equal_low if keys.hi is None or key.hi is None else is_equal_low & (keys.hi == key.hi[0])


def _operation_text(event_columns: EventColumns, index: int) -> str:
    if event_columns.operation is None:
        return "" if event_columns.deleted is None else str(value_as_json(event_columns.deleted[index]))
    return str(event_columns.operation[index].as_py() if event_columns.operation[index].is_valid else "NULL")


def find_rows(
    parquet: pq.ParquetFile, path: str, key_ids: Sequence[int], key: RequestedKey
) -> NDArray[np.int64]:
    """Return the rows that have the key, read one row group at a time."""
    starts = row_group_starts(parquet)
    rows_by_group = [
        starts[group] + np.flatnonzero(key.find_rows(read_columns(parquet, path, key_ids, [group])))
        for group in range(parquet.num_row_groups)
    ]
    return np.concatenate([np.empty(0, np.int64), *rows_by_group])


def _to_file_events(
    event_columns: EventColumns,
    file: ChangelogFile,
    ordinal: int,
    rows: NDArray[np.int64],
    shape: ChangelogShape,
) -> FileEvents:
    """Return these rows as events, numbered from 0, and rejected rows."""
    try:
        return to_file_events(event_columns, file, ordinal, shape)
    except Invalid as error:
        raise Invalid(
            f"the key has events, the first in row {int(rows[0])}, with an operation or sequence that cannot be "
            f"merged: {file.path}"
        ) from error


def _describe_rows(table: pa.Table) -> Iterator[EventDetail]:
    digests = digest_rows(table)
    for index in range(table.num_rows):
        row = table.slice(index, 1)
        yield EventDetail("", {}, int(digests[index]), row_as_json(row), row.nbytes)
