"""Rebuilds missing or damaged segments of the index from the files that they covered.

    data files of the mirror ─► live rows                    \
    changelog up to the cursor ─► orders and tombstones        ─► entries of the segment
    deleted positions ─► tombstones of rows that others deleted /

Reads only key, operation and sequence of the changelog. A row without an event gets the greatest order of the
segment, so that no replay overwrites it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import Corrupt, Invalid
from icemirror.processes.crash_points import reach
from icemirror.telemetry.logs import get_log
from spark_job.changelog.changes import Changes, concat_changes, sort_by_position
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.read_changes import newest_order, read_changes
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.distinct import distinct
from spark_job.columns.parquet_columns import open_parquet, read_columns
from spark_job.engine.engine import Engine
from spark_job.engine.work import KeyOnlyWork
from spark_job.iceberg.live_files import live_files
from spark_job.iceberg.mirror import Mirror
from spark_job.index.keys import U64, Keys, concat_keys, floor_indices, isin_sorted
from spark_job.index.root import Root
from spark_job.index.segment import TOMBSTONE, Entries, SegmentInfo
from spark_job.index.write_segment import write_new_segment
from spark_job.maintenance.foreign_files import commits_before_foreign_files, indexed_file
from spark_job.maintenance.index_foreign_writes import IndexedShard, newest_order_in_index
from spark_job.merge.collapse import collapse_changes
from spark_job.merge.locate import SearchableIndex, look_up_keys
from spark_job.storage.discard import discard_on_error
from spark_job.write.vectors import deleted_positions

ROW = 2
_DELETED_ROW = 3
_LATEST = np.iinfo(np.uint64).max
GREATEST_KEY = (1 << 128) - 1

log = get_log(__name__)


@dataclass(frozen=True)
class CoveredFile:
    """A data file of the mirror. `read_all_rows`: the segment covered it; otherwise only its deleted rows are read.

    `commit_before`: the changelog commit that was merged last when another writer added the file; None for icemirror's
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
    covered: tuple[CoveredFile, ...]
    shape: ChangelogShape
    key_ids: tuple[int, ...]
    older_index: SearchableIndex
    default_order: tuple[int, ...]
    first_key: int
    last_key: int
    location: str
    rebuilds_whole_index: bool = False

    @property
    def files(self) -> tuple[ChangelogFile, ...]:
        """The files to read."""
        rows = [ChangelogFile(file.path, 8 * file.rows, file.rows, 0, 0) for file in self.covered]
        return (*self.history, *rows)

    def source(self, file: ChangelogFile) -> tuple[FileIO, tuple[int, ...]]:
        """Return the storage of a file and the field ids of its key."""
        mirrored = any(covered.path == file.path for covered in self.covered)
        return (self.io, self.key_ids) if mirrored else (self.changelog_io, self.shape.key_ids)

    def read(self, ordinals: range) -> Changes:
        """Read events and rows whose keys lie in the range of the segment."""
        changes = concat_changes([self._read_file(at) for at in ordinals])
        order = changes.keys.argsort()
        inside = changes.keys.take(order).bounds(self.first_key, self.last_key)
        return changes.take(np.sort(order[inside]))

    def _read_file(self, at: int) -> Changes:
        if at < len(self.history):
            return read_changes(self.changelog_io, self.history[at], at, self.shape)
        file = self.covered[at - len(self.history)]
        with open_parquet(self.io, file.path, file.rows) as parquet:
            columns = read_columns(parquet, file.path, self.key_ids)
        if any(column.null_count for column in columns):
            raise Invalid(f"the mirror has rows without a key. Delete them: {file.path}")
        kind = np.full(len(columns[0]), ROW, dtype=np.uint8)
        kind[file.deleted] = _DELETED_ROW
        rows = np.arange(len(kind))
        changes = Changes(
            keys=self.codec.encode(columns),
            operation=kind,
            sequence=np.zeros((len(kind), self.shape.sequence.parts), dtype=np.uint64),
            file=np.full(len(kind), at, dtype=np.uint32),
            row=rows.astype(np.uint32),
        )
        return changes if file.read_all_rows else changes.take(kind == _DELETED_ROW)

    def merge(self, read: Callable[[], Changes]) -> IndexedShard:
        """Rebuild a range of keys."""
        changes = sort_by_position(read())
        self.require_unique_keys(sort_by_key(changes.take(changes.operation == ROW)))
        entries = self.entries(changes)
        paths = {file.ordinal: file.path for file in self.covered}
        return IndexedShard(
            write_new_segment(self.io, self.location, entries, self.shape.key_definition, paths), {}
        )

    def require_unique_keys(self, rows: Changes) -> None:
        """Refuse two live rows with one key, in rows sorted by key."""
        duplicates = np.flatnonzero(rows.keys.same_as_next())
        if len(duplicates):
            first, second = (self.describe_row(rows, int(duplicates[0]) + step) for step in (0, 1))
            raise Corrupt(
                f"{first} has the key of {second}, so the key index cannot be rebuilt. If another writer added one of "
                "them, delete that one with its engine; else one of the files is damaged."
            )

    def describe_row(self, rows: Changes, at: int) -> str:
        """Name a row of the mirror by file and position."""
        file = self.covered[int(rows.file[at]) - len(self.history)]
        return f"row {int(rows.row[at])} of {file.path}"

    def entries(self, changes: Changes) -> Entries:
        """Return the entries of a key range; `changes` are in the order of their files."""
        rows, deleted_rows = (
            sort_by_key(changes.take(changes.operation == kind)) for kind in (ROW, _DELETED_ROW)
        )
        events = collapse_changes(self._without_stale(changes.take(changes.operation < ROW), rows))
        snapshots = np.array([file.sequence_number for file in self.history], dtype=np.uint64)
        orders = np.column_stack([events.sequence, snapshots[events.file]])
        tombstone_keys = concat_keys(
            [
                self._keys_without_live_row(events.keys, deleted_rows),
                self._deleted_rows_to_tombstone(deleted_rows).keys,
            ]
        )
        tombstone_keys = tombstone_keys.take(tombstone_keys.argsort())
        tombstone_keys = tombstone_keys.take(
            _first_of_each(tombstone_keys) & ~isin_sorted(tombstone_keys, rows.keys)
        )
        keys = concat_keys([rows.keys, tombstone_keys])
        ordinals = np.array([file.ordinal for file in self.covered], dtype=np.int32)
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

    def _without_stale(self, events: Changes, rows: Changes) -> Changes:
        """Drop events merged after another writer's row of their key: they were stale, since the row is still there."""
        commit_before = np.array(
            [_LATEST if file.commit_before is None else file.commit_before for file in self.covered],
            np.uint64,
        )
        if not len(rows) or (commit_before == _LATEST).all():
            return events
        snapshots = np.array([file.sequence_number for file in self.history], dtype=np.uint64)
        at = np.maximum(floor_indices(rows.keys, events.keys), 0)
        added = commit_before[rows.file.astype(np.intp) - len(self.history)][at]
        return events.take(~(isin_sorted(events.keys, rows.keys) & (snapshots[events.file] > added)))

    def _keys_without_live_row(self, keys: Keys, deleted_rows: Changes) -> Keys:
        """Return the keys without a live row in older segments: each gets a tombstone unless this segment has a row.

        The last event does not decide: another writer may have deleted the row, or inserted it again. A tombstone for
        a key that a newer segment knows has no effect.
        """
        if self.rebuilds_whole_index:
            return keys
        older_entries = look_up_keys(self.older_index, keys, self.default_order)
        ordinals = np.array([file.ordinal for file in self.covered], dtype=np.int64)
        removed = _row_numbers(
            ordinals[deleted_rows.file.astype(np.intp) - len(self.history)], deleted_rows.row
        )
        lives = (older_entries.file >= 0) & ~np.isin(
            _row_numbers(older_entries.file, older_entries.pos), removed
        )
        return keys.take(~lives)

    def _deleted_rows_to_tombstone(self, deleted_rows: Changes) -> Changes:
        """Return deleted rows that the segment covered, or that older segments point at as live."""
        at = deleted_rows.file.astype(np.intp) - len(self.history)
        ordinals = np.array([file.ordinal for file in self.covered], dtype=np.int32)[at]
        covered = np.array([file.read_all_rows for file in self.covered], dtype=np.bool_)[at]
        older_entries = look_up_keys(self.older_index, deleted_rows.keys, self.default_order)
        return deleted_rows.take(
            covered | ((older_entries.file == ordinals) & (older_entries.pos == deleted_rows.row))
        )

    def _orders(self, keys: Keys, known: Keys, orders: U64) -> U64:
        """Return the order of each key: that of its event in the changelog, else `default_order`."""
        found = np.tile(np.array(self.default_order, dtype=np.uint64), (len(keys), 1))
        has_event = isin_sorted(keys, known)
        if has_event.any():
            found[has_event] = orders[floor_indices(known, keys.take(has_event))]
        return found


def _with_live_rows(root: Root, covered: Sequence[CoveredFile]) -> Root:
    """Return the root with the live rows of each data file; `covered` has all of them."""
    files = [
        root.files[file.ordinal].model_copy(update={"live": file.rows - len(file.deleted)})
        for file in covered
    ]
    return root.model_copy(update={"files": tuple(files)})


def _row_numbers(file: NDArray[np.signedinteger], pos: NDArray[np.integer]) -> NDArray[np.int64]:
    """Pack file (high 32 bits) and position (low 32 bits) into one number."""
    return (file.astype(np.int64) << np.int64(32)) | pos.astype(np.int64)


def sort_by_key(changes: Changes) -> Changes:
    """Sort changes by key."""
    return changes.take(changes.keys.argsort())


def _first_of_each(keys: Keys) -> NDArray[np.bool_]:
    if not len(keys):
        return np.empty(0, dtype=np.bool_)
    return np.concatenate([[True], ~keys.same_as_next()])


@dataclass(frozen=True)
class SegmentRebuilder:
    """Rebuilds segments of one mirror. `history` returns the changelog files that are merged."""

    engine: Engine
    changelog_io: FileIO
    history: Callable[[], Sequence[ChangelogFile]]
    shape: ChangelogShape
    location: str

    def rebuild(self, mirror: Mirror, damaged: Set[str]) -> tuple[Mirror, tuple[SegmentInfo, ...]]:
        """Return the mirror with a readable index, and the segments written for it.

        The whole index is rebuilt if another writer committed since: deletes of the
        foreign write and of the damaged segment are indistinguishable.
        """
        root = mirror.root
        is_damaged = root is not None and any(segment.path in damaged for segment in root.segments)
        if mirror.root_unreadable or (is_damaged and mirror.has_foreign_writes):
            return self._rebuild_all(mirror)
        if root is None or not is_damaged:
            return mirror, ()
        segments, added = list(root.segments), list[SegmentInfo]()
        with discard_on_error(mirror.table.io) as written:
            for at in reversed(range(len(segments))):  # oldest first: newer ones depend on it
                if segments[at].path in damaged:
                    work = self._work(mirror, root, segments[at], tuple(segments[at + 1 :]))
                    rebuilt = self._run(work, segments[at].run, segments[at].written_at_ms)
                    segments[at : at + 1] = rebuilt
                    added.extend(rebuilt)
                    written += [segment.path for segment in rebuilt]
        return replace(mirror, root=root.model_copy(update={"segments": tuple(segments)})), tuple(added)

    def _rebuild_all(self, mirror: Mirror) -> tuple[Mirror, tuple[SegmentInfo, ...]]:
        """Rebuild the whole index for the current head."""
        live = live_files(mirror.table.io, mirror.head)
        root = Root(
            snapshot_id=mirror.head.snapshot_id if mirror.head else 0,
            epoch=mirror.epoch,
            segments=(),
            files=tuple(map(indexed_file, live.values())),
        )
        work = self._work(mirror, root, None, ())
        root = _with_live_rows(root, work.covered)
        default_order = (
            newest_order_in_index(mirror.root, len(work.default_order))
            if mirror.root
            else newest_order(self.changelog_io, work.history, self.shape)
        )
        segments = self._run(
            replace(work, default_order=default_order), root.next_run, int(time.time() * 1000)
        )
        root = root.model_copy(update={"segments": segments, "next_run": root.next_run + 1})
        return replace(mirror, root=root, root_unreadable=False, has_foreign_writes=False), segments

    def _run(self, work: RebuildSegmentWork, run: int, written_at: int) -> tuple[SegmentInfo, ...]:
        log.warning(
            "rebuilding segments of the key index",
            data_files=sum(file.read_all_rows for file in work.covered),
            changelog_files=len(work.history),
        )
        shards = self.engine.run(work) if work.files else []
        reach("segments-rebuilt")
        return tuple(shard.segment.with_run(run, written_at) for shard in shards if shard.segment)

    def _work(
        self, mirror: Mirror, root: Root, damaged: SegmentInfo | None, older: tuple[SegmentInfo, ...]
    ) -> RebuildSegmentWork:
        io = mirror.table.io
        live = live_files(io, mirror.head)
        listed = {at: live[file.path] for at, file in enumerate(root.files) if file.path in live}
        deleted = deleted_positions(io, {file.path: file for file in listed.values() if file.deleted})
        commit_before = commits_before_foreign_files(mirror.table.metadata, live)
        nothing = np.empty(0, dtype=np.int64)
        covered = [
            CoveredFile(
                file.path,
                at,
                file.rows,
                distinct(deleted.get(file.path, nothing)),
                read_all_rows=damaged is None or at in damaged.files,
                commit_before=commit_before.get(file.path),
            )
            for at, file in listed.items()
        ]
        return RebuildSegmentWork(
            changelog_io=self.changelog_io,
            history=self._history(),
            io=io,
            covered=tuple(file for file in covered if file.read_all_rows or len(file.deleted)),
            shape=self.shape,
            key_ids=tuple(mirror.field_map[key_id] for key_id in self.shape.key_ids),
            older_index=SearchableIndex(io, older, root.removed_ordinals),
            default_order=damaged.greatest_order if damaged else (0,) * (self.shape.sequence.parts + 1),
            first_key=damaged.first_key if damaged else 0,
            last_key=damaged.last_key if damaged else GREATEST_KEY,
            location=self.location,
            rebuilds_whole_index=damaged is None,
        )

    def _history(self) -> tuple[ChangelogFile, ...]:
        try:
            return tuple(self.history())
        except Invalid as error:
            log.warning("row order no longer recoverable from the changelog", reason=str(error))
            return ()
