"""Brings the index up to a head that another writer made: rows that came are indexed, deleted ones leave tombstones.

The order of a row that only moved (a compaction, an update by another engine) is the one that the index knew for its
key; a row of a key that was never there counts as the newest change merged so far, so that no replay turns it back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.crash import reach
from icemirror.errors import REBUILD, Corrupt, Invalid
from icemirror.telemetry.logs import get_log
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import Changes, concat_changes
from spark_job.changelog.shape import ChangelogShape, Operation
from spark_job.columns.parquet_columns import open_parquet, read_at, read_columns
from spark_job.distinct import distinct
from spark_job.files.discard import discard
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.view import LiveFile, live_files
from spark_job.index_upkeep.indexed_files import indexed_file
from spark_job.index_upkeep.recount import with_distinct
from spark_job.key_index.keys import Indices, are_among, concat_keys
from spark_job.key_index.numbered import write_entries
from spark_job.key_index.root import IndexedFile, Root
from spark_job.key_index.segment import TOMBSTONE, Entries, SegmentInfo
from spark_job.locate import Index, look_up
from spark_job.runtime.engine import Engine
from spark_job.runtime.work import NarrowWork
from spark_job.write.vectors import deleted_positions

# What the changelog does not tell, no merge undoes.
_CHANGED = (
    "another writer changed rows of the mirror, which stay so until their keys change in the changelog; `icemirror "
    "verify --deep` shows them, `icemirror replay --full` undoes it"
)

log = get_log(__name__)


@dataclass(frozen=True)
class Difference:
    """What of a table its index does not know: data files that came, that went, and that lost rows."""

    came: tuple[LiveFile, ...]
    gone: frozenset[int]
    lost_rows: Mapping[int, LiveFile]

    def __bool__(self) -> bool:
        return bool(self.came or self.gone or self.lost_rows)


def compare(root: Root, live: Mapping[str, LiveFile]) -> Difference:
    """The table's live files beside those that the index counts. Pure."""
    known = {file.path for file in root.files if not file.gone}
    return Difference(
        came=tuple(file for path, file in live.items() if path not in known),
        gone=frozenset(at for at, file in enumerate(root.files) if not file.gone and file.path not in live),
        lost_rows={
            at: live[file.path]
            for at, file in enumerate(root.files)
            if file.path in live
            and not file.gone
            and live[file.path].rows - live[file.path].deleted != file.live
        },
    )


def without_doubles(
    root: Root, difference: Difference, deleted: Mapping[str, NDArray[np.int64]]
) -> Difference:
    """The difference, by distinct deleted rows: some that others deleted were deleted before. Pure."""
    came, lost = (
        [with_distinct(file, deleted[file.path]) if file.path in deleted else file for file in files]
        for files in (difference.came, difference.lost_rows.values())
    )
    lost_rows = {
        at: file
        for at, file in zip(difference.lost_rows, lost, strict=True)
        if file.rows - file.deleted != root.files[at].live
    }
    return Difference(tuple(came), difference.gone, lost_rows)


@dataclass(frozen=True)
class ForeignFile:
    """A data file of so many rows that are to be indexed, or (`came` is false) whose deleted ones leave tombstones."""

    path: str
    ordinal: int
    rows: int
    deleted: NDArray[np.int64]
    came: bool

    @property
    def keys(self) -> int:
        """How many keys are to be taken from it."""
        return self.rows if self.came else len(self.deleted)


@dataclass(frozen=True)
class IndexedShard:
    """What a range of keys became; `removed` counts the rows that others deleted, by ordinal of the data file."""

    segment: SegmentInfo | None
    removed: Mapping[int, int]

    @property
    def paths(self) -> list[str]:
        """Every file that the shard wrote."""
        return [self.segment.path] if self.segment else []


@dataclass(frozen=True)
class CatchUpWork(NarrowWork):
    """Indexes what others wrote and deleted; sent to the tasks."""

    name: str
    io: FileIO
    foreign: tuple[ForeignFile, ...]
    key_ids: tuple[int, ...]
    shape: ChangelogShape
    index: Index
    newest: tuple[int, ...]
    location: str

    @property
    def files(self) -> tuple[ChangeFile, ...]:
        """What is read: key columns, the weight of which is taken for eight bytes a row."""
        return tuple(ChangeFile(file.path, 8 * file.keys, file.keys, 0, 0) for file in self.foreign)

    def source(self, file: ChangeFile) -> tuple[FileIO, tuple[int, ...]]:
        """The mirror, and the field ids of its key."""
        return self.io, self.key_ids

    def read(self, ordinals: range) -> Changes:
        """The keys of some files: of rows that came as upserts, of rows that were deleted as deletes."""
        return concat_changes([self._read_file(at) for at in ordinals])

    def _read_file(self, at: int) -> Changes:
        file = self.foreign[at]
        with open_parquet(self.io, file.path, file.rows) as parquet:
            if file.came:
                columns = read_columns(parquet, file.path, self.key_ids)
                rows = np.setdiff1d(np.arange(len(columns[0])), file.deleted, assume_unique=True)
                if len(file.deleted):
                    columns = [column.take(rows) for column in columns]
            else:
                rows = file.deleted
                columns = read_at(parquet, file.path, self.key_ids, rows)
        if any(column.null_count for column in columns):
            raise Invalid(f"{file.path}: another writer put rows without a key into the mirror {self.name}")
        operation = Operation.UPSERT if file.came else Operation.DELETE
        return Changes(
            keys=self.codec.encode(columns),
            operation=np.full(len(rows), operation, dtype=np.uint8),
            sequence=np.empty((len(rows), 0), dtype=np.uint64),
            file=np.full(len(rows), at, dtype=np.uint32),
            row=rows.astype(np.uint32),
        )

    def merge(self, read: Callable[[], Changes]) -> IndexedShard:
        """Indexes a range of keys."""
        changes = read()
        changes = changes.take(changes.keys.argsort())
        came = changes.operation == Operation.UPSERT
        entries, removed = self._entries(changes.take(came), changes.take(~came))
        paths = {file.ordinal: file.path for file in self.foreign}
        return IndexedShard(write_entries(self.io, self.location, entries, self.shape.recipe, paths), removed)

    def _entries(self, rows: Changes, deleted: Changes) -> tuple[Entries, dict[int, int]]:
        """The new entries: rows with the order that their key had, tombstones for rows that were live until now."""
        ordinals = np.array([file.ordinal for file in self.foreign], dtype=np.int32)
        self._refuse_doubles(rows, np.flatnonzero(rows.keys.same_as_next()))
        was = look_up(self.index, deleted.keys, self.newest)
        live = (was.file == ordinals[deleted.file]) & (was.pos == deleted.row)
        dead = deleted.take(live)
        had = look_up(self.index, rows.keys, self.newest)
        self._refuse_twice(rows, np.flatnonzero((had.file >= 0) & ~are_among(rows.keys, dead.keys)), had.file)
        buried = ~are_among(dead.keys, rows.keys)
        keys = concat_keys([rows.keys, dead.keys.take(buried)])
        tombstones = int(buried.sum())
        order = keys.argsort()
        files, counts = np.unique(ordinals[dead.file], return_counts=True)
        entries = Entries(
            keys.take(order),
            np.concatenate([ordinals[rows.file], np.full(tombstones, TOMBSTONE, np.int32)])[order],
            np.concatenate([rows.row.astype(np.int64), np.zeros(tombstones, np.int64)])[order],
            np.concatenate([had.orders, was.orders[live][buried]])[order],
        )
        return entries, dict(zip(files.tolist(), counts.tolist(), strict=True))

    def _refuse_doubles(self, rows: Changes, doubles: Indices) -> None:
        if len(doubles):
            one, other = (self._place(rows, int(doubles[0]) + step) for step in (0, 1))
            raise Invalid(_TWICE.format(name=self.name, one=one, other=other))

    def _refuse_twice(self, rows: Changes, twice: Indices, file: NDArray[np.int32]) -> None:
        if len(twice):
            at = int(twice[0])
            other = f"a row of data file number {int(file[at])} of the index"
            raise Invalid(_TWICE.format(name=self.name, one=self._place(rows, at), other=other))

    def _place(self, rows: Changes, at: int) -> str:
        return f"row {int(rows.row[at])} of {self.foreign[int(rows.file[at])].path}"


_TWICE = (
    "{name}: {one} has the key of {other}. A mirror has one row for each key: delete one of them with the engine "
    "that wrote it, then `icemirror resume`."
)


def caught_up(root: Root, difference: Difference, shards: list[IndexedShard], written_at: int) -> Root:
    """The root with what others did; its counts are the table's, after a check that the index found the same. Pure."""
    removed: dict[int, int] = {}
    for shard in shards:
        for ordinal, count in shard.removed.items():
            removed[ordinal] = removed.get(ordinal, 0) + count
    files = [_file_now(at, file, difference, removed) for at, file in enumerate(root.files)]
    files.extend(map(indexed_file, difference.came))
    segments = [shard.segment.in_run(root.next_run, written_at) for shard in shards if shard.segment]
    return root.model_copy(
        update={
            "segments": (*segments, *root.segments),
            "files": tuple(files),
            "next_run": root.next_run + 1,
        }
    )


def _file_now(at: int, file: IndexedFile, difference: Difference, removed: Mapping[int, int]) -> IndexedFile:
    if at in difference.gone:
        return file.model_copy(update={"live": 0, "gone": True})
    if at not in difference.lost_rows:
        return file
    live = difference.lost_rows[at].rows - difference.lost_rows[at].deleted
    if file.live - live != removed.get(at, 0):
        raise Corrupt(
            f"{file.path}: the table lost {file.live - live} rows there by another writer, but the key index knows "
            f"{removed.get(at, 0)} of them; nothing was committed. To go on, {REBUILD}."
        )
    return file.model_copy(update={"live": live})


def catch_up(
    engine: Engine, mirror: Mirror, shape: ChangelogShape, location: str
) -> tuple[Mirror, tuple[SegmentInfo, ...]]:
    """The mirror with an index that knows what others wrote, and the segments that were written for it."""
    if not mirror.foreign or mirror.root is None:
        return mirror, ()
    root, io = mirror.root, mirror.table.io
    live = live_files(io, mirror.head)
    difference = compare(root, live)
    if not difference:
        return mirror, ()
    touched = {file.path: file for file in (*difference.came, *difference.lost_rows.values()) if file.deleted}
    deleted = {path: distinct(found) for path, found in deleted_positions(io, touched).items()}
    difference = without_doubles(root, difference, deleted)
    if not difference:
        return mirror, ()
    name = ".".join(mirror.table.name())
    work = CatchUpWork(
        name=name,
        io=io,
        foreign=foreign_files(root, difference, deleted),
        key_ids=tuple(mirror.field_map[key_id] for key_id in shape.key_ids),
        shape=shape,
        index=Index(io, root.segments, root.gone | difference.gone),
        newest=greatest_order(root, shape.sequence.parts + 1),
        location=location,
    )
    shards = engine.run(work) if work.foreign else []
    reach("caught-up")
    others_rows = mirror.others_changed_rows
    (log.warning if others_rows else log.info)(
        _CHANGED if others_rows else "caught up with another writer",
        table=name,
        files_came=len(difference.came),
        files_gone=len(difference.gone),
        files_with_deletes=len(difference.lost_rows),
    )
    try:
        root = caught_up(root, difference, shards, int(time.time() * 1000))
    except Corrupt:
        discard(io, [path for shard in shards for path in shard.paths])
        raise
    added = root.segments[: sum(1 for shard in shards if shard.segment)]
    return replace(mirror, root=root), added


def greatest_order(root: Root, parts: int) -> tuple[int, ...]:
    """The newest change that the index knows."""
    return max((segment.greatest for segment in root.segments), default=(0,) * parts)


def foreign_files(
    root: Root, difference: Difference, deleted: Mapping[str, NDArray[np.int64]]
) -> tuple[ForeignFile, ...]:
    """What is to be read, with the ordinals that the files have in the next root. Pure."""
    first = len(root.files)
    nothing = np.empty(0, dtype=np.int64)
    came = [
        ForeignFile(file.path, first + at, file.rows, deleted.get(file.path, nothing), came=True)
        for at, file in enumerate(difference.came)
    ]
    lost = [
        ForeignFile(file.path, ordinal, file.rows, deleted.get(file.path, nothing), came=False)
        for ordinal, file in difference.lost_rows.items()
    ]
    return (*came, *lost)
