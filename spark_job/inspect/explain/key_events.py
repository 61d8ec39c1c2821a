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
from spark_job.changelog.bad_rows import RejectReason
from spark_job.changelog.changes import Changes, concat_changes
from spark_job.changelog.event_columns import EventColumns, read_event_columns
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.read_changes import FileEvents, to_file_events
from spark_job.changelog.read_rows import file_projection, read_selected_rows
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.truncations import events_before, later_truncation
from spark_job.columns.field_map import FieldMap
from spark_job.columns.json_values import Json, row_as_json, value_as_json
from spark_job.columns.parquet_columns import (
    check_field_ids,
    column_paths,
    open_parquet,
    read_columns,
    row_group_starts,
)
from spark_job.index.keys import Keys, Mask
from spark_job.inspect.explain.event_outcomes import KeyEvents
from spark_job.inspect.explain.requested_key import RequestedKey
from spark_job.inspect.inspect_index import without_path
from spark_job.inspect.verify.row_digest import digest_rows
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

    `ahead`: the last truncation that waits to be merged.
    """

    table: str
    io: FileIO
    files: tuple[ChangelogFile, ...]
    merged: int
    shape: ChangelogShape
    ids: FieldMap
    schema: Schema
    ahead: Truncation | None = None

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
    """The events, details of each, and unreadable files with the reason. `values_omitted`: some values are omitted."""

    events: KeyEvents
    details: tuple[EventDetail, ...]
    unreadable: tuple[tuple[str, str], ...]
    values_omitted: bool = False
    rejected: tuple[RejectedEvent, ...] = ()


@dataclass(frozen=True)
class _EventsInFile:
    """The events of the key in one file."""

    changes: Changes
    details: list[EventDetail] = field(default_factory=list)
    rejected: list[RejectedEvent] = field(default_factory=list)


def find_events(
    source: EventFiles, key: RequestedKey, wanted: Sequence[int], files_read: OnFilesRead
) -> FoundEvents:
    """Find the events of the key in the files with these ordinals."""
    parts: list[Changes] = []
    details: list[EventDetail] = []
    unreadable: list[tuple[str, str]] = []
    rejected: list[RejectedEvent] = []
    held, values_omitted = 0, False

    def read(at: int) -> _EventsInFile | str:
        try:
            with translate_errors(source.files[at].path):
                return _read_file(source, key, at)
        except (Corrupt, Invalid) as error:
            insert_table_name(error, source.table)
            return str(error)

    for start in range(0, len(wanted), _FILES_AT_ONCE):
        ordinals = wanted[start : start + _FILES_AT_ONCE]
        for at, found in zip(
            ordinals, map_parallel(read, ordinals, source.files[ordinals[0]].path), strict=True
        ):
            if isinstance(found, str):
                unreadable.append((source.files[at].path, without_path(found, source.files[at].path)))
                continue
            parts.append(found.changes)
            rejected += found.rejected
            for detail in found.details:
                held += detail.bytes
                values_omitted |= held > _MAX_VALUE_BYTES
                details.append(replace(detail, values=None) if held > _MAX_VALUE_BYTES else detail)
        files_read(len(ordinals))
    changes = concat_changes(parts) if parts else _no_events(source.shape, key)
    numbers = np.array([file.sequence_number for file in source.files], dtype=np.uint64)
    events = KeyEvents(
        changes,
        numbers[changes.file],
        tuple(detail.digest for detail in details),
        int((changes.file < source.merged).sum()),
        frozenset(_outdated(source, changes)),
    )
    return FoundEvents(events, tuple(details), tuple(unreadable), values_omitted, tuple(rejected))


def _outdated(source: EventFiles, changes: Changes) -> Iterator[int]:
    """Yield the events before a truncation; for waiting events also one that waits itself."""
    followed = source.shape.followed_truncation
    for at, ordinal in enumerate(changes.file.tolist()):
        truncation = followed if ordinal < source.merged else later_truncation(followed, source.ahead)
        event = slice(at, at + 1)
        if truncation is not None and bool(
            events_before(truncation, changes.sequence[event], changes.row[event], source.files[ordinal])[0]
        ):
            yield at


def _no_events(shape: ChangelogShape, key: RequestedKey) -> Changes:
    """Return no events."""
    none = np.empty(0, dtype=np.uint32)
    keys = shape.codec.encode(key.arrays).take(slice(0, 0))
    sequence = np.empty((0, shape.sequence.parts), dtype=np.uint64)
    return Changes(keys, none.astype(np.uint8), sequence, none, none)


def _read_file(source: EventFiles, key: RequestedKey, ordinal: int) -> _EventsInFile:
    """Read the events of the key in one file."""
    file, shape = source.files[ordinal], source.shape_with_truncated_events
    with open_parquet(source.io, file.path, file.events) as parquet:
        if shape.last_column_id is not None:
            check_field_ids(parquet, file.path, shape.last_column_id)
        rows = rows_of_key(parquet, file.path, shape.key_ids, key)
        if shape.old_key_ids and len(column_paths(parquet, file.path, shape.old_key_ids)) == len(key.columns):
            rows = np.union1d(rows, rows_of_key(parquet, file.path, shape.old_key_ids, key))
        if not len(rows):
            return _EventsInFile(_no_events(shape, key))
        event_columns = read_event_columns(parquet, file.path, shape, rows)
        file_events = _as_changes(event_columns, file, ordinal, rows, shape)
        rejected = [
            RejectedEvent(ordinal, int(rows[at]), reason)
            for reason, indices in file_events.bad
            for at in indices
        ]
        changes = file_events.changes.take(_has_key(file_events.changes.keys, shape.codec.encode(key.arrays)))
        if not len(changes):
            return _EventsInFile(_no_events(shape, key), rejected=rejected)
        tables = read_selected_rows(
            source.io,
            parquet,
            rows,
            file_projection(file, source.ids, shape.defaults),
            schema_to_pyarrow(source.schema),
        )
        details = [detail for table in tables for detail in _rows(table)]
    names = [column.name for column in shape.sequence.columns]
    at_rows: list[int] = changes.row.tolist()
    complete = [
        replace(
            details[at],
            operation=_operation(event_columns, at),
            sequence={
                name: value_as_json(values[at])
                for name, values in zip(names, event_columns.sequence, strict=True)
            },
        )
        for at in at_rows
    ]
    return _EventsInFile(replace(changes, row=rows[at_rows].astype(np.uint32)), complete, rejected)


def _has_key(keys: Keys, key: Keys) -> Mask:
    """Return which changes have this key: an event that moves a row has two keys."""
    same: Mask = keys.lo == key.lo[0]
    return same if keys.hi is None or key.hi is None else same & (keys.hi == key.hi[0])


def _operation(event_columns: EventColumns, at: int) -> str:
    if event_columns.operation is None:
        return "" if event_columns.deleted is None else str(value_as_json(event_columns.deleted[at]))
    return str(event_columns.operation[at].as_py() if event_columns.operation[at].is_valid else "NULL")


def rows_of_key(
    parquet: pq.ParquetFile, path: str, key_ids: Sequence[int], key: RequestedKey
) -> NDArray[np.int64]:
    """Return the rows that have the key, read one row group at a time."""
    starts = row_group_starts(parquet)
    found = [
        starts[group] + np.flatnonzero(key.rows(read_columns(parquet, path, key_ids, [group])))
        for group in range(parquet.num_row_groups)
    ]
    return np.concatenate([np.empty(0, np.int64), *found])


def _as_changes(
    event_columns: EventColumns,
    file: ChangelogFile,
    ordinal: int,
    rows: NDArray[np.int64],
    shape: ChangelogShape,
) -> FileEvents:
    """Convert these rows to events, numbered from 0, and rejected rows."""
    try:
        return to_file_events(event_columns, file, ordinal, shape)
    except Invalid as error:
        raise Invalid(
            f"the key has events, the first in row {int(rows[0])}, with an operation or sequence that cannot be "
            f"merged: {file.path}"
        ) from error


def _rows(table: pa.Table) -> Iterator[EventDetail]:
    digests = digest_rows(table)
    for at in range(table.num_rows):
        row = table.slice(at, 1)
        yield EventDetail("", {}, int(digests[at]), row_as_json(row), row.nbytes)
