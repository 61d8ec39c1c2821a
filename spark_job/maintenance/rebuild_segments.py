"""Rebuilds missing or damaged segments of the index from the files that they covered.

    data files of the mirror ─► live rows                    \
    changelog up to the cursor ─► orders and tombstones        ─► entries of the segment
    deleted positions ─► tombstones of rows that others deleted /

Of the changelog only key, operation and sequence are read. A row without an event gets the greatest order of the
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
from spark_job.engine.work import NarrowWork
from spark_job.iceberg.live_files import live_files
from spark_job.iceberg.mirror import Mirror
from spark_job.index.keys import U64, Keys, concat_keys, floor_indices, isin_sorted
from spark_job.index.root import Root
from spark_job.index.segment import TOMBSTONE, Entries, SegmentInfo
from spark_job.index.write_segment import write_new_segment
from spark_job.maintenance.index_foreign_writes import IndexedShard, greatest_order
from spark_job.maintenance.indexed_files import foreign_file_cursors, indexed_file
from spark_job.merge.collapse import collapse_changes
from spark_job.merge.locate import Index, look_up_keys
from spark_job.storage.discard import discard_on_error
from spark_job.write.vectors import deleted_positions

ROW = 2
_DEAD_ROW = 3
_LATEST = np.iinfo(np.uint64).max
GREATEST_KEY = (1 << 128) - 1

log = get_log(__name__)


@dataclass(frozen=True)
class CoveredFile:
    """A data file of the mirror. All rows are read if the segment covered it (`whole`), else only the deleted ones.

    `since`: the changelog commit that was merged last when another writer added the file; None for our own files.
    """

    path: str
    ordinal: int
    rows: int
    deleted: NDArray[np.int64]
    whole: bool
    since: int | None = None


@dataclass(frozen=True)
class RebuildSegmentWork(NarrowWork):
    """Rebuilds one segment, or the whole index (`everything`); sent to the tasks.

    Files are numbered through: first those of the changelog, then those of the mirror. `older`: the index below the
    segment. `newest`: the order of rows that have no event.
    """

    changelog_io: FileIO
    history: tuple[ChangelogFile, ...]
    io: FileIO
    covered: tuple[CoveredFile, ...]
    shape: ChangelogShape
    key_ids: tuple[int, ...]
    older: Index
    newest: tuple[int, ...]
    first_key: int
    last_key: int
    location: str
    everything: bool = False

    @property
    def files(self) -> tuple[ChangelogFile, ...]:
        """The files to read."""
        rows = [ChangelogFile(file.path, 8 * file.rows, file.rows, 0, 0) for file in self.covered]
        return (*self.history, *rows)

    def source(self, file: ChangelogFile) -> tuple[FileIO, tuple[int, ...]]:
        """Return the storage of a file and the field ids of its key."""
        mirrored = any(one.path == file.path for one in self.covered)
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
            raise Invalid(
                f"{file.path}: has rows without a key, which a mirror cannot hold. Delete them first."
            )
        kind = np.full(len(columns[0]), ROW, dtype=np.uint8)
        kind[file.deleted] = _DEAD_ROW
        rows = np.arange(len(kind))
        changes = Changes(
            keys=self.codec.encode(columns),
            operation=kind,
            sequence=np.zeros((len(kind), self.shape.sequence.parts), dtype=np.uint64),
            file=np.full(len(kind), at, dtype=np.uint32),
            row=rows.astype(np.uint32),
        )
        return changes if file.whole else changes.take(kind == _DEAD_ROW)

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
            one, other = (self.describe_row(rows, int(duplicates[0]) + step) for step in (0, 1))
            raise Corrupt(
                f"{one} has the key of {other}, so the key index cannot be rebuilt. If another writer added one of "
                "them, delete that one with its engine; else one of the files is damaged."
            )

    def describe_row(self, rows: Changes, at: int) -> str:
        """Name a row of the mirror by file and position."""
        file = self.covered[int(rows.file[at]) - len(self.history)]
        return f"row {int(rows.row[at])} of {file.path}"

    def entries(self, changes: Changes) -> Entries:
        """Return the entries of a key range; `changes` are in the order of their files."""
        rows, dead = (sort_by_key(changes.take(changes.operation == kind)) for kind in (ROW, _DEAD_ROW))
        events = collapse_changes(self._without_stale(changes.take(changes.operation < ROW), rows))
        snapshots = np.array([file.sequence_number for file in self.history], dtype=np.uint64)
        orders = np.column_stack([events.sequence, snapshots[events.file]])
        tombs = concat_keys([self._without_row(events.keys, dead), self._without_successor(dead).keys])
        tombs = tombs.take(tombs.argsort())
        tombs = tombs.take(_first_of_each(tombs) & ~isin_sorted(tombs, rows.keys))
        keys = concat_keys([rows.keys, tombs])
        ordinals = np.array([file.ordinal for file in self.covered], dtype=np.int32)
        file = np.concatenate(
            [
                ordinals[rows.file.astype(np.intp) - len(self.history)],
                np.full(len(tombs), TOMBSTONE, dtype=np.int32),
            ]
        )
        pos = np.concatenate([rows.row.astype(np.int64), np.zeros(len(tombs), dtype=np.int64)])
        order = keys.argsort()
        keys = keys.take(order)
        return Entries(keys, file[order], pos[order], self._orders(keys, events.keys, orders))

    def _without_stale(self, events: Changes, rows: Changes) -> Changes:
        """Drop events merged after another writer's row of their key: they did not replace it, so they were older."""
        since = np.array([_LATEST if file.since is None else file.since for file in self.covered], np.uint64)
        if not len(rows) or (since == _LATEST).all():
            return events
        snapshots = np.array([file.sequence_number for file in self.history], dtype=np.uint64)
        at = np.maximum(floor_indices(rows.keys, events.keys), 0)
        added = since[rows.file.astype(np.intp) - len(self.history)][at]
        return events.take(~(isin_sorted(events.keys, rows.keys) & (snapshots[events.file] > added)))

    def _without_row(self, keys: Keys, dead: Changes) -> Keys:
        """Return the keys without a live row in older segments: each gets a tombstone unless this segment has a row.

        The last event does not decide: another writer may have deleted the row, or inserted it again. A tombstone for
        a key that a newer segment knows has no effect.
        """
        if self.everything:
            return keys
        claimed = look_up_keys(self.older, keys, self.newest)
        ordinals = np.array([file.ordinal for file in self.covered], dtype=np.int64)
        removed = _row_numbers(ordinals[dead.file.astype(np.intp) - len(self.history)], dead.row)
        lives = (claimed.file >= 0) & ~np.isin(_row_numbers(claimed.file, claimed.pos), removed)
        return keys.take(~lives)

    def _without_successor(self, dead: Changes) -> Changes:
        """Return deleted rows that the segment covered, or that older segments point at as live."""
        at = dead.file.astype(np.intp) - len(self.history)
        ordinals = np.array([file.ordinal for file in self.covered], dtype=np.int32)[at]
        covered = np.array([file.whole for file in self.covered], dtype=np.bool_)[at]
        claimed = look_up_keys(self.older, dead.keys, self.newest)
        return dead.take(covered | ((claimed.file == ordinals) & (claimed.pos == dead.row)))

    def _orders(self, keys: Keys, known: Keys, orders: U64) -> U64:
        """Return the order of each key: that of its event in the changelog, else `newest`."""
        found = np.tile(np.array(self.newest, dtype=np.uint64), (len(keys), 1))
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

        The whole index is rebuilt if another writer committed since: its deletes and those of the lost segment
        cannot be separated.
        """
        root = mirror.root
        is_damaged = root is not None and any(segment.path in damaged for segment in root.segments)
        if mirror.lost or (is_damaged and mirror.foreign):
            return self._rebuild_all(mirror)
        if root is None or not is_damaged:
            return mirror, ()
        segments, added = list(root.segments), list[SegmentInfo]()
        with discard_on_error(mirror.table.io) as written:
            for at in reversed(range(len(segments))):  # oldest first: newer ones depend on it
                if segments[at].path in damaged:
                    work = self._work(mirror, root, segments[at], tuple(segments[at + 1 :]))
                    rebuilt = self._run(work, segments[at].run, segments[at].written_at)
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
        newest = (
            greatest_order(mirror.root, len(work.newest))
            if mirror.root
            else newest_order(self.changelog_io, work.history, self.shape)
        )
        segments = self._run(replace(work, newest=newest), root.next_run, int(time.time() * 1000))
        root = root.model_copy(update={"segments": segments, "next_run": root.next_run + 1})
        return replace(mirror, root=root, lost=False, foreign=False), segments

    def _run(self, work: RebuildSegmentWork, run: int, written_at: int) -> tuple[SegmentInfo, ...]:
        log.warning(
            "rebuilding segments of the key index",
            data_files=sum(file.whole for file in work.covered),
            changelog_files=len(work.history),
        )
        shards = self.engine.run(work) if work.files else []
        reach("segments-rebuilt")
        return tuple(shard.segment.with_run(run, written_at) for shard in shards if shard.segment)

    def _work(
        self, mirror: Mirror, root: Root, lost: SegmentInfo | None, older: tuple[SegmentInfo, ...]
    ) -> RebuildSegmentWork:
        io = mirror.table.io
        live = live_files(io, mirror.head)
        listed = {at: live[file.path] for at, file in enumerate(root.files) if file.path in live}
        deleted = deleted_positions(io, {file.path: file for file in listed.values() if file.deleted})
        since = foreign_file_cursors(mirror.table.metadata, live)
        nothing = np.empty(0, dtype=np.int64)
        covered = [
            CoveredFile(
                file.path,
                at,
                file.rows,
                distinct(deleted.get(file.path, nothing)),
                whole=lost is None or at in lost.files,
                since=since.get(file.path),
            )
            for at, file in listed.items()
        ]
        return RebuildSegmentWork(
            changelog_io=self.changelog_io,
            history=self._history(),
            io=io,
            covered=tuple(file for file in covered if file.whole or len(file.deleted)),
            shape=self.shape,
            key_ids=tuple(mirror.field_map[key_id] for key_id in self.shape.key_ids),
            older=Index(io, older, root.gone),
            newest=lost.greatest if lost else (0,) * (self.shape.sequence.parts + 1),
            first_key=lost.first_key if lost else 0,
            last_key=lost.last_key if lost else GREATEST_KEY,
            location=self.location,
            everything=lost is None,
        )

    def _history(self) -> tuple[ChangelogFile, ...]:
        try:
            return tuple(self.history())
        except Invalid as error:
            log.warning("row order no longer recoverable from the changelog", reason=str(error))
            return ()
