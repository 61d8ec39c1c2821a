"""Rebuilds segments of the index that are missing or damaged, from exactly what they covered.

Live rows come from the data files that the segment covered, orders and tombstones from the changelog, of which only
key, operation and sequence are read. A row that the changelog does not know counts as the newest of the segment, so
that no replay turns it back. A row that others deleted is known only by its deleted position.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.crash import reach
from icemirror.errors import Corrupt, Invalid
from icemirror.telemetry.logs import get_log
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import Changes, concat_changes, in_order
from spark_job.changelog.read_changes import read_changes
from spark_job.changelog.read_sequences import newest_order
from spark_job.changelog.shape import ChangelogShape
from spark_job.collapse import collapse_changes
from spark_job.columns.parquet_columns import open_parquet, read_columns
from spark_job.distinct import distinct
from spark_job.files.written import written_before_commit
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.view import live_files
from spark_job.index_upkeep.catch_up import IndexedShard, greatest_order
from spark_job.index_upkeep.indexed_files import indexed_file
from spark_job.index_upkeep.merged_then import merged_then
from spark_job.key_index.keys import U64, Keys, are_among, concat_keys, last_not_above
from spark_job.key_index.numbered import write_entries
from spark_job.key_index.root import Root
from spark_job.key_index.segment import TOMBSTONE, Entries, SegmentInfo
from spark_job.locate import Index, look_up
from spark_job.runtime.engine import Engine
from spark_job.runtime.work import NarrowWork
from spark_job.write.vectors import deleted_positions

ROW = 2
_DEAD_ROW = 3
_LATEST = np.iinfo(np.uint64).max
EVERY_KEY = (1 << 128) - 1

log = get_log(__name__)


@dataclass(frozen=True)
class Covered:
    """A data file of the mirror: its rows are read if the segment covered it, else only those that are deleted.

    `since`: the changelog's commit up to which was merged when another writer added it.
    """

    path: str
    ordinal: int
    rows: int
    deleted: NDArray[np.int64]
    whole: bool
    since: int | None = None


@dataclass(frozen=True)
class HealWork(NarrowWork):
    """Rebuilds one segment, or the whole index (`everything`: then a key without a row has none); sent to the tasks.

    The files are those of the changelog, then those of the mirror.
    """

    changelog_io: FileIO
    history: tuple[ChangeFile, ...]
    io: FileIO
    covered: tuple[Covered, ...]
    shape: ChangelogShape
    key_ids: tuple[int, ...]
    older: Index
    newest: tuple[int, ...]
    first_key: int
    last_key: int
    location: str
    everything: bool = False

    @property
    def files(self) -> tuple[ChangeFile, ...]:
        """What is read."""
        rows = [ChangeFile(file.path, 8 * file.rows, file.rows, 0, 0) for file in self.covered]
        return (*self.history, *rows)

    def source(self, file: ChangeFile) -> tuple[FileIO, tuple[int, ...]]:
        """Changelog or mirror, and the field ids of the key there."""
        mirrored = any(one.path == file.path for one in self.covered)
        return (self.io, self.key_ids) if mirrored else (self.changelog_io, self.shape.key_ids)

    def read(self, ordinals: range) -> Changes:
        """Events and rows with keys in the range of the segment."""
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
                f"{file.path}: has rows without a key; a mirror cannot hold them. Delete them first."
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
        """Rebuilds a range of keys."""
        changes = in_order(read())
        self.refuse_doubles(by_key(changes.take(changes.operation == ROW)))
        entries = self.entries(changes)
        paths = {file.ordinal: file.path for file in self.covered}
        return IndexedShard(write_entries(self.io, self.location, entries, self.shape.recipe, paths), {})

    def refuse_doubles(self, rows: Changes) -> None:
        """Two live rows of one key, by key, are of a file that is not what it was, or of another writer."""
        doubles = np.flatnonzero(rows.keys.same_as_next())
        if len(doubles):
            one, other = (self.place(rows, int(doubles[0]) + step) for step in (0, 1))
            raise Corrupt(
                f"{one} has the key of {other}, so the key index cannot be rebuilt. If another writer added one of "
                "them, delete that one with its engine; else one of the files is damaged."
            )

    def place(self, rows: Changes, at: int) -> str:
        """A row of the mirror in words."""
        file = self.covered[int(rows.file[at]) - len(self.history)]
        return f"row {int(rows.row[at])} of {file.path}"

    def entries(self, changes: Changes) -> Entries:
        """What a range of keys becomes; changes in the order of their files."""
        rows, dead = (by_key(changes.take(changes.operation == kind)) for kind in (ROW, _DEAD_ROW))
        events = collapse_changes(self._that_count(changes.take(changes.operation < ROW), rows))
        snapshots = np.array([file.sequence_number for file in self.history], dtype=np.uint64)
        orders = np.column_stack([events.sequence, snapshots[events.file]])
        tombs = concat_keys([self._without_row(events.keys, dead), self._without_successor(dead).keys])
        tombs = tombs.take(tombs.argsort())
        tombs = tombs.take(_first_of_each(tombs) & ~are_among(tombs, rows.keys))
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

    def _that_count(self, events: Changes, rows: Changes) -> Changes:
        """Without those that came after another writer's row of their key, and did not replace it: they were older."""
        since = np.array([_LATEST if file.since is None else file.since for file in self.covered], np.uint64)
        if not len(rows) or (since == _LATEST).all():
            return events
        snapshots = np.array([file.sequence_number for file in self.history], dtype=np.uint64)
        at = np.maximum(last_not_above(rows.keys, events.keys), 0)
        came = since[rows.file.astype(np.intp) - len(self.history)][at]
        return events.take(~(are_among(events.keys, rows.keys) & (snapshots[events.file] > came)))

    def _without_row(self, keys: Keys, dead: Changes) -> Keys:
        """Keys that the segment may bury: those of which the older ones have no live row.

        Whether the last event was a delete does not tell: others may have deleted a row, or brought one back. Where a
        newer segment knows a key, a tombstone too many does nothing.
        """
        if self.everything:
            return keys
        claimed = look_up(self.older, keys, self.newest)
        ordinals = np.array([file.ordinal for file in self.covered], dtype=np.int64)
        gone = _places(ordinals[dead.file.astype(np.intp) - len(self.history)], dead.row)
        lives = (claimed.file >= 0) & ~np.isin(_places(claimed.file, claimed.pos), gone)
        return keys.take(~lives)

    def _without_successor(self, dead: Changes) -> Changes:
        """Deleted rows that the segment covered, or that the older ones would take for live."""
        at = dead.file.astype(np.intp) - len(self.history)
        ordinals = np.array([file.ordinal for file in self.covered], dtype=np.int32)[at]
        covered = np.array([file.whole for file in self.covered], dtype=np.bool_)[at]
        claimed = look_up(self.older, dead.keys, self.newest)
        return dead.take(covered | ((claimed.file == ordinals) & (claimed.pos == dead.row)))

    def _orders(self, keys: Keys, known: Keys, orders: U64) -> U64:
        """The order of each key by the changelog, else the newest."""
        found = np.tile(np.array(self.newest, dtype=np.uint64), (len(keys), 1))
        there = are_among(keys, known)
        if there.any():
            found[there] = orders[last_not_above(known, keys.take(there))]
        return found


def _with_live_rows(root: Root, covered: Sequence[Covered]) -> Root:
    """The root with the rows that are not deleted in each data file, all of which are covered."""
    files = [
        root.files[file.ordinal].model_copy(update={"live": file.rows - len(file.deleted)})
        for file in covered
    ]
    return root.model_copy(update={"files": tuple(files)})


def _places(file: NDArray[np.signedinteger], pos: NDArray[np.integer]) -> NDArray[np.int64]:
    """File and position as one number."""
    return (file.astype(np.int64) << np.int64(32)) | pos.astype(np.int64)


def by_key(changes: Changes) -> Changes:
    """The changes, ascending by key."""
    return changes.take(changes.keys.argsort())


def _first_of_each(keys: Keys) -> NDArray[np.bool_]:
    if not len(keys):
        return np.empty(0, dtype=np.bool_)
    return np.concatenate([[True], ~keys.same_as_next()])


@dataclass(frozen=True)
class Healer:
    """What rebuilding needs beside the mirror. `history` gives the changelog's files that are merged."""

    engine: Engine
    changelog_io: FileIO
    history: Callable[[], Sequence[ChangeFile]]
    shape: ChangelogShape
    location: str

    def heal(self, mirror: Mirror, damaged: Set[str]) -> tuple[Mirror, tuple[SegmentInfo, ...]]:
        """The mirror with an index that can be read again, and the segments that were written for it.

        Where others have written since, what the lost segment said cannot be told from what they did: all is rebuilt.
        """
        root = mirror.root
        hurt = root is not None and any(segment.path in damaged for segment in root.segments)
        if mirror.lost or (hurt and mirror.foreign):
            return self._rebuild(mirror)
        if root is None or not hurt:
            return mirror, ()
        segments, added = list(root.segments), list[SegmentInfo]()
        with written_before_commit(mirror.table.io) as written:
            for at in reversed(range(len(segments))):  # the oldest first: newer ones ask it
                if segments[at].path in damaged:
                    work = self._work(mirror, root, segments[at], tuple(segments[at + 1 :]))
                    rebuilt = self._run(work, segments[at].run, segments[at].written_at)
                    segments[at : at + 1] = rebuilt
                    added.extend(rebuilt)
                    written += [segment.path for segment in rebuilt]
        return replace(mirror, root=root.model_copy(update={"segments": tuple(segments)})), tuple(added)

    def _rebuild(self, mirror: Mirror) -> tuple[Mirror, tuple[SegmentInfo, ...]]:
        """The whole index, for the head as it is."""
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

    def _run(self, work: HealWork, run: int, written_at: int) -> tuple[SegmentInfo, ...]:
        log.warning(
            "rebuilding a part of the key index",
            data_files=sum(file.whole for file in work.covered),
            changelog_files=len(work.history),
        )
        shards = self.engine.run(work) if work.files else []
        reach("healed")
        return tuple(shard.segment.in_run(run, written_at) for shard in shards if shard.segment)

    def _work(
        self, mirror: Mirror, root: Root, lost: SegmentInfo | None, older: tuple[SegmentInfo, ...]
    ) -> HealWork:
        io = mirror.table.io
        live = live_files(io, mirror.head)
        there = {at: live[file.path] for at, file in enumerate(root.files) if file.path in live}
        deleted = deleted_positions(io, {file.path: file for file in there.values() if file.deleted})
        since = merged_then(mirror.table.metadata, live)
        nothing = np.empty(0, dtype=np.int64)
        covered = [
            Covered(
                file.path,
                at,
                file.rows,
                distinct(deleted.get(file.path, nothing)),
                whole=lost is None or at in lost.files,
                since=since.get(file.path),
            )
            for at, file in there.items()
        ]
        return HealWork(
            changelog_io=self.changelog_io,
            history=self._history(),
            io=io,
            covered=tuple(file for file in covered if file.whole or len(file.deleted)),
            shape=self.shape,
            key_ids=tuple(mirror.field_map[key_id] for key_id in self.shape.key_ids),
            older=Index(io, older, root.gone),
            newest=lost.greatest if lost else (0,) * (self.shape.sequence.parts + 1),
            first_key=lost.first_key if lost else 0,
            last_key=lost.last_key if lost else EVERY_KEY,
            location=self.location,
            everything=lost is None,
        )

    def _history(self) -> tuple[ChangeFile, ...]:
        try:
            return tuple(self.history())
        except Invalid as error:
            log.warning("the changelog does not tell the orders of rows any more", reason=str(error))
            return ()
