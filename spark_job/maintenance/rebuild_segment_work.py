"""Rebuilds the entries of a segment in the tasks of an engine; see `rebuild_segments`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import Corrupt, Invalid
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.event_batch import (
    EventBatch,
    concat_events,
    event_orders,
    pack_positions,
    sort_by_position,
)
from spark_job.changelog.read_events import read_events
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.arrays import U64
from spark_job.columns.parquet_columns import open_parquet, read_columns
from spark_job.engine.work import KeyOnlyWork, MirrorWorkFile, WorkFile
from spark_job.index.keys import Keys, concat_keys, floor_indices, isin_sorted
from spark_job.index.segment import TOMBSTONE, Entries
from spark_job.index.write_segment import write_new_segment
from spark_job.maintenance.index_foreign_writes import IndexedShard
from spark_job.merge.collapse import collapse_changes
from spark_job.merge.locate import SearchableIndex, read_key_entries

GREATEST_KEY = (1 << 128) - 1
_AFTER_ALL_COMMITS = np.iinfo(np.uint64).max


class RebuildOperation(IntEnum):
    """Values of `EventBatch.operation` for rows of the mirror; see `event_batch` for all values."""

    LIVE_ROW = 2
    DELETED_ROW = 3


@dataclass(frozen=True)
class SegmentDataFile:
    """A data file of the mirror. `read_all_rows`: the segment indexed it; otherwise only its deleted rows are read.

    `commit_before`: the changelog commit that was merged last when another engine added the file; None for icemirror's
    files.
    """

    path: str
    ordinal: int
    rows: int
    deleted: NDArray[np.int64]
    read_all_rows: bool
    commit_before: int | None = None


@dataclass(frozen=True)
class RebuildSegmentWork(KeyOnlyWork):
    """Rebuilds one segment, or the whole index (`rebuilds_whole_index`); sent to the tasks.

    File ordinals: the changelog's files, then the mirror's. `older_index`: the index below the segment.
    `default_order`: the order of rows that have no event.
    """

    changelog_io: FileIO
    history: tuple[ChangelogFile, ...]
    io: FileIO
    data_files: tuple[SegmentDataFile, ...]
    shape: ChangelogShape
    key_ids: tuple[int, ...]
    older_index: SearchableIndex
    default_order: tuple[int, ...]
    first_key: int
    last_key: int
    location: str
    rebuilds_whole_index: bool = False

    @property
    def files(self) -> tuple[WorkFile, ...]:
        """The files to read; a row of a data file is estimated at eight bytes of key."""
        data_files = [MirrorWorkFile(file.path, 8 * file.rows, file.rows) for file in self.data_files]
        return (*self.history, *data_files)

    def key_source(self, file: WorkFile) -> tuple[FileIO, tuple[int, ...]]:
        """Return the storage of a file and the field ids of its key."""
        is_data_file = any(data_file.path == file.path for data_file in self.data_files)
        return (self.io, self.key_ids) if is_data_file else (self.changelog_io, self.shape.key_ids)

    def read(self, ordinals: range) -> EventBatch:
        """Read events and rows whose keys lie in the range of the segment."""
        events = concat_events([self._read_file(ordinal) for ordinal in ordinals])
        order = events.keys.argsort()
        in_range = events.keys.take(order).slice_between(self.first_key, self.last_key)
        return events.take(np.sort(order[in_range]))

    def _read_file(self, ordinal: int) -> EventBatch:
        if ordinal < len(self.history):
            return read_events(self.changelog_io, self.history[ordinal], ordinal, self.shape)
        file = self.data_files[ordinal - len(self.history)]
        with open_parquet(self.io, file.path, file.rows) as parquet:
            columns = read_columns(parquet, file.path, self.key_ids)
        if any(column.null_count for column in columns):
            raise Invalid(f"the mirror has rows without a key. Delete them: {file.path}")
        operation = np.full(len(columns[0]), RebuildOperation.LIVE_ROW, dtype=np.uint8)
        operation[file.deleted] = RebuildOperation.DELETED_ROW
        rows = EventBatch(
            keys=self.codec.encode(columns),
            operation=operation,
            sequence=np.zeros((len(operation), self.shape.sequence.parts), dtype=np.uint64),
            file=np.full(len(operation), ordinal, dtype=np.uint32),
            row=np.arange(len(operation), dtype=np.uint32),
        )
        return rows if file.read_all_rows else rows.take(operation == RebuildOperation.DELETED_ROW)

    def run_shard(self, read: Callable[[], EventBatch]) -> IndexedShard:
        """Rebuild a range of keys. Return its segment."""
        events = sort_by_position(read())
        self.require_unique_keys(sort_by_key(events.take(events.operation == RebuildOperation.LIVE_ROW)))
        entries = self.entries(events)
        paths = {file.ordinal: file.path for file in self.data_files}
        return IndexedShard(
            write_new_segment(self.io, self.location, entries, self.shape.key_definition, paths), {}
        )

    def require_unique_keys(self, rows: EventBatch) -> None:
        """Raise `Corrupt` if two live rows have one key. `rows` are sorted by key."""
        duplicates = np.flatnonzero(rows.keys.same_as_next())
        if len(duplicates):
            first, second = (self.describe_row(rows, int(duplicates[0]) + step) for step in (0, 1))
            raise Corrupt(
                f"{first} has the key of {second}, so the key index cannot be rebuilt. If another writer added one of "
                "them, delete that one with its engine; else one of the files is damaged."
            )

    def describe_row(self, rows: EventBatch, index: int) -> str:
        """Return file and position of a row of the mirror, for messages."""
        file = self.data_files[int(rows.file[index]) - len(self.history)]
        return f"row {int(rows.row[index])} of {file.path}"

    def entries(self, batch: EventBatch) -> Entries:
        """Return the entries of a key range; `batch` is in the order of its files."""
        rows, deleted_rows = (
            sort_by_key(batch.take(batch.operation == operation)) for operation in RebuildOperation
        )
        events = collapse_changes(
            self._without_stale(batch.take(batch.operation < RebuildOperation.LIVE_ROW), rows)
        )
        orders = event_orders(events, self.history)
        tombstone_keys = concat_keys(
            [
                self._keys_without_live_row(events.keys, deleted_rows),
                self._deleted_rows_to_tombstone(deleted_rows).keys,
            ]
        )
        tombstone_keys = tombstone_keys.take(tombstone_keys.argsort())
        tombstone_keys = tombstone_keys.take(
            _is_first_of_key(tombstone_keys) & ~isin_sorted(tombstone_keys, rows.keys)
        )
        keys = concat_keys([rows.keys, tombstone_keys])
        ordinals = np.array([file.ordinal for file in self.data_files], dtype=np.int32)
        file = np.concatenate(
            [
                ordinals[rows.file.astype(np.intp) - len(self.history)],
                np.full(len(tombstone_keys), TOMBSTONE, dtype=np.int32),
            ]
        )
        pos = np.concatenate([rows.row.astype(np.int64), np.zeros(len(tombstone_keys), dtype=np.int64)])
        order = keys.argsort()
        keys = keys.take(order)
        return Entries(keys, file[order], pos[order], self._orders(keys, events.keys, orders))

    def _without_stale(self, events: EventBatch, rows: EventBatch) -> EventBatch:
        """Drop events that were merged after a foreign row of their key: the row is still there, so they were stale."""
        commit_before = np.array(
            [
                _AFTER_ALL_COMMITS if file.commit_before is None else file.commit_before
                for file in self.data_files
            ],
            np.uint64,
        )
        if not len(rows) or (commit_before == _AFTER_ALL_COMMITS).all():
            return events
        sequence_numbers = np.array([file.sequence_number for file in self.history], dtype=np.uint64)
        row_indices = np.maximum(floor_indices(rows.keys, events.keys), 0)
        row_added_after = commit_before[rows.file.astype(np.intp) - len(self.history)][row_indices]
        is_stale = isin_sorted(events.keys, rows.keys) & (sequence_numbers[events.file] > row_added_after)
        return events.take(~is_stale)

    def _keys_without_live_row(self, keys: Keys, deleted_rows: EventBatch) -> Keys:
        """Return the keys without a live row in older segments: each gets a tombstone unless this segment has a row.

        The last event does not decide: another engine may have deleted the row, or inserted it again. A tombstone for
        a key in a newer segment has no effect.
        """
        if self.rebuilds_whole_index:
            return keys
        older_entries = read_key_entries(self.older_index, keys, self.default_order)
        ordinals = np.array([file.ordinal for file in self.data_files], dtype=np.int64)
        deleted_positions = pack_positions(
            ordinals[deleted_rows.file.astype(np.intp) - len(self.history)], deleted_rows.row
        )
        has_live_row = (older_entries.file >= 0) & ~np.isin(
            pack_positions(older_entries.file, older_entries.pos), deleted_positions
        )
        return keys.take(~has_live_row)

    def _deleted_rows_to_tombstone(self, deleted_rows: EventBatch) -> EventBatch:
        """Return deleted rows that the segment indexed, or that older segments point at as live."""
        file_indices = deleted_rows.file.astype(np.intp) - len(self.history)
        ordinals = np.array([file.ordinal for file in self.data_files], dtype=np.int32)[file_indices]
        in_segment = np.array([file.read_all_rows for file in self.data_files], dtype=np.bool_)[file_indices]
        older_entries = read_key_entries(self.older_index, deleted_rows.keys, self.default_order)
        return deleted_rows.take(
            in_segment | ((older_entries.file == ordinals) & (older_entries.pos == deleted_rows.row))
        )

    def _orders(self, keys: Keys, event_keys: Keys, event_orders: U64) -> U64:
        """Return the order of each key: that of its event in the changelog, else `default_order`."""
        orders = np.tile(np.array(self.default_order, dtype=np.uint64), (len(keys), 1))
        has_event = isin_sorted(keys, event_keys)
        if has_event.any():
            orders[has_event] = event_orders[floor_indices(event_keys, keys.take(has_event))]
        return orders


def sort_by_key(events: EventBatch) -> EventBatch:
    """Return the events sorted by key."""
    return events.take(events.keys.argsort())


def _is_first_of_key(keys: Keys) -> NDArray[np.bool_]:
    """Return which of these sorted keys differ from the key before them."""
    if not len(keys):
        return np.empty(0, dtype=np.bool_)
    return np.concatenate([[True], ~keys.same_as_next()])
