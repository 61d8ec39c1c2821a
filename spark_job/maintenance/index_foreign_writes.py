"""Indexes what another writer committed on the mirror: new rows become entries, deleted rows become tombstones.

A row that was only moved or updated keeps the order that the index has for its key. A row with a new key gets the
greatest order merged so far, so that no replay overwrites it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import REBUILD, Corrupt, Invalid
from icemirror.processes.crash_points import reach
from icemirror.telemetry.logs import get_log
from spark_job.changelog.changes import Changes, concat_changes
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.shape import ChangelogShape, Operation
from spark_job.columns.distinct import distinct
from spark_job.columns.parquet_columns import open_parquet, read_columns, read_rows_at
from spark_job.engine.engine import Engine
from spark_job.engine.work import NarrowWork
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.mirror import Mirror
from spark_job.index.keys import Indices, concat_keys, isin_sorted
from spark_job.index.root import IndexedFile, Root
from spark_job.index.segment import TOMBSTONE, Entries, SegmentInfo
from spark_job.index.write_segment import write_new_segment
from spark_job.maintenance.indexed_files import indexed_file
from spark_job.merge.locate import Index, look_up_keys
from spark_job.storage.discard import discard
from spark_job.write.live_row_counts import with_distinct_deletes
from spark_job.write.vectors import deleted_positions

# No merge restores such a row before its key changes in the changelog.
_ROWS_CHANGED = (
    "another writer changed rows of the mirror; `icemirror verify --deep` lists them, `icemirror replay --full` "
    "restores the rows of the changelog"
)
_DUPLICATE_KEY = (
    "{name}: {one} has the key of {other}. A mirror has one row for each key: delete one of them with the engine "
    "that wrote it, then `icemirror resume`."
)

log = get_log(__name__)


@dataclass(frozen=True)
class IndexDifference:
    """How the data files of a table differ from those of its index.

    `removed`: ordinals of files that left the table. `changed`: files with more or fewer live rows, by ordinal.
    """

    added: tuple[LiveFile, ...]
    removed: frozenset[int]
    changed: Mapping[int, LiveFile]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def compare_files(root: Root, live: Mapping[str, LiveFile]) -> IndexDifference:
    """Compare the live files of a table with the files that its index counts."""
    known = {file.path for file in root.files if not file.gone}
    return IndexDifference(
        added=tuple(file for path, file in live.items() if path not in known),
        removed=frozenset(
            at for at, file in enumerate(root.files) if not file.gone and file.path not in live
        ),
        changed={
            at: live[file.path]
            for at, file in enumerate(root.files)
            if file.path in live
            and not file.gone
            and live[file.path].rows - live[file.path].deleted != file.live
        },
    )


def count_distinct_deletes(
    root: Root, difference: IndexDifference, deleted: Mapping[str, NDArray[np.int64]]
) -> IndexDifference:
    """Return the difference with each deleted row counted once: two writers may delete the same row."""
    added, changed = (
        [with_distinct_deletes(file, deleted[file.path]) if file.path in deleted else file for file in files]
        for files in (difference.added, difference.changed.values())
    )
    still_changed = {
        at: file
        for at, file in zip(difference.changed, changed, strict=True)
        if file.rows - file.deleted != root.files[at].live
    }
    return IndexDifference(tuple(added), difference.removed, still_changed)


@dataclass(frozen=True)
class ForeignFile:
    """A data file to read: all live rows of an added file, only the deleted rows of a known one."""

    path: str
    ordinal: int
    rows: int
    deleted: NDArray[np.int64]
    added: bool

    @property
    def keys(self) -> int:
        """How many keys are read from it."""
        return self.rows if self.added else len(self.deleted)


@dataclass(frozen=True)
class IndexedShard:
    """The segment of a key range, and how many rows another writer deleted, by ordinal of the data file."""

    segment: SegmentInfo | None
    removed: Mapping[int, int]

    @property
    def paths(self) -> list[str]:
        """Every file that the shard wrote."""
        return [self.segment.path] if self.segment else []


@dataclass(frozen=True)
class ForeignWritesWork(NarrowWork):
    """Indexes the rows that another writer added and deleted; sent to the tasks."""

    name: str
    io: FileIO
    foreign: tuple[ForeignFile, ...]
    key_ids: tuple[int, ...]
    shape: ChangelogShape
    index: Index
    newest: tuple[int, ...]
    location: str

    @property
    def files(self) -> tuple[ChangelogFile, ...]:
        """The files to read; their key columns are taken to weigh eight bytes a row."""
        return tuple(ChangelogFile(file.path, 8 * file.keys, file.keys, 0, 0) for file in self.foreign)

    def source(self, file: ChangelogFile) -> tuple[FileIO, tuple[int, ...]]:
        """Return the mirror's storage and the field ids of its key."""
        return self.io, self.key_ids

    def read(self, ordinals: range) -> Changes:
        """Read the keys of some files: added rows as upserts, deleted rows as deletes."""
        return concat_changes([self._read_file(at) for at in ordinals])

    def _read_file(self, at: int) -> Changes:
        file = self.foreign[at]
        with open_parquet(self.io, file.path, file.rows) as parquet:
            if file.added:
                columns = read_columns(parquet, file.path, self.key_ids)
                rows = np.setdiff1d(np.arange(len(columns[0])), file.deleted, assume_unique=True)
                if len(file.deleted):
                    columns = [column.take(rows) for column in columns]
            else:
                rows = file.deleted
                columns = read_rows_at(parquet, file.path, self.key_ids, rows)
        if any(column.null_count for column in columns):
            raise Invalid(f"{file.path}: another writer added rows without a key to the mirror {self.name}")
        operation = Operation.UPSERT if file.added else Operation.DELETE
        return Changes(
            keys=self.codec.encode(columns),
            operation=np.full(len(rows), operation, dtype=np.uint8),
            sequence=np.empty((len(rows), 0), dtype=np.uint64),
            file=np.full(len(rows), at, dtype=np.uint32),
            row=rows.astype(np.uint32),
        )

    def merge(self, read: Callable[[], Changes]) -> IndexedShard:
        """Index a range of keys."""
        changes = read()
        changes = changes.take(changes.keys.argsort())
        added = changes.operation == Operation.UPSERT
        entries, removed = self._entries(changes.take(added), changes.take(~added))
        paths = {file.ordinal: file.path for file in self.foreign}
        return IndexedShard(
            write_new_segment(self.io, self.location, entries, self.shape.key_definition, paths), removed
        )

    def _entries(self, rows: Changes, deleted: Changes) -> tuple[Entries, dict[int, int]]:
        """Return entries for the added rows, tombstones for rows that were live until now, and counts by file.

        Both keep the order that the index has for their key. A deleted row counts only if the index points at it.
        """
        ordinals = np.array([file.ordinal for file in self.foreign], dtype=np.int32)
        self._refuse_added_twice(rows, np.flatnonzero(rows.keys.same_as_next()))
        was = look_up_keys(self.index, deleted.keys, self.newest)
        live = (was.file == ordinals[deleted.file]) & (was.pos == deleted.row)
        dead = deleted.take(live)
        known = look_up_keys(self.index, rows.keys, self.newest)
        self._refuse_live_already(
            rows, np.flatnonzero((known.file >= 0) & ~isin_sorted(rows.keys, dead.keys)), known.file
        )
        buried = ~isin_sorted(dead.keys, rows.keys)
        keys = concat_keys([rows.keys, dead.keys.take(buried)])
        tombstones = int(buried.sum())
        order = keys.argsort()
        files, counts = np.unique(ordinals[dead.file], return_counts=True)
        entries = Entries(
            keys.take(order),
            np.concatenate([ordinals[rows.file], np.full(tombstones, TOMBSTONE, np.int32)])[order],
            np.concatenate([rows.row.astype(np.int64), np.zeros(tombstones, np.int64)])[order],
            np.concatenate([known.orders, was.orders[live][buried]])[order],
        )
        return entries, dict(zip(files.tolist(), counts.tolist(), strict=True))

    def _refuse_added_twice(self, rows: Changes, duplicates: Indices) -> None:
        if len(duplicates):
            one, other = (self._describe(rows, int(duplicates[0]) + step) for step in (0, 1))
            raise Invalid(_DUPLICATE_KEY.format(name=self.name, one=one, other=other))

    def _refuse_live_already(self, rows: Changes, duplicates: Indices, file: NDArray[np.int32]) -> None:
        if len(duplicates):
            at = int(duplicates[0])
            other = f"a row of data file number {int(file[at])} of the index"
            raise Invalid(_DUPLICATE_KEY.format(name=self.name, one=self._describe(rows, at), other=other))

    def _describe(self, rows: Changes, at: int) -> str:
        return f"row {int(rows.row[at])} of {self.foreign[int(rows.file[at])].path}"


def apply_foreign_writes(
    root: Root, difference: IndexDifference, shards: list[IndexedShard], written_at: int
) -> Root:
    """Return the root that matches the table; raises `Corrupt` if the index knows other rows than the table lost."""
    removed: dict[int, int] = {}
    for shard in shards:
        for ordinal, count in shard.removed.items():
            removed[ordinal] = removed.get(ordinal, 0) + count
    files = [_updated_file(at, file, difference, removed) for at, file in enumerate(root.files)]
    files.extend(map(indexed_file, difference.added))
    segments = [shard.segment.with_run(root.next_run, written_at) for shard in shards if shard.segment]
    return root.model_copy(
        update={
            "segments": (*segments, *root.segments),
            "files": tuple(files),
            "next_run": root.next_run + 1,
        }
    )


def _updated_file(
    at: int, file: IndexedFile, difference: IndexDifference, removed: Mapping[int, int]
) -> IndexedFile:
    if at in difference.removed:
        return file.model_copy(update={"live": 0, "gone": True})
    if at not in difference.changed:
        return file
    live = difference.changed[at].rows - difference.changed[at].deleted
    if file.live - live != removed.get(at, 0):
        raise Corrupt(
            f"{file.path}: another writer deleted {file.live - live} rows of this file, but the key index knows "
            f"{removed.get(at, 0)} of them; nothing was committed. To go on, {REBUILD}."
        )
    return file.model_copy(update={"live": live})


def index_foreign_writes(
    engine: Engine, mirror: Mirror, shape: ChangelogShape, location: str
) -> tuple[Mirror, tuple[SegmentInfo, ...]]:
    """Return the mirror with an index that knows the commits of other writers, and the segments written for it."""
    if not mirror.foreign or mirror.root is None:
        return mirror, ()
    root, io = mirror.root, mirror.table.io
    live = live_files(io, mirror.head)
    difference = compare_files(root, live)
    if not difference:
        return mirror, ()
    touched = {file.path: file for file in (*difference.added, *difference.changed.values()) if file.deleted}
    deleted = {path: distinct(found) for path, found in deleted_positions(io, touched).items()}
    difference = count_distinct_deletes(root, difference, deleted)
    if not difference:
        return mirror, ()
    name = ".".join(mirror.table.name())
    work = ForeignWritesWork(
        name=name,
        io=io,
        foreign=foreign_files(root, difference, deleted),
        key_ids=tuple(mirror.field_map[key_id] for key_id in shape.key_ids),
        shape=shape,
        index=Index(io, root.segments, root.gone | difference.removed),
        newest=greatest_order(root, shape.sequence.parts + 1),
        location=location,
    )
    shards = engine.run(work) if work.foreign else []
    reach("foreign-writes-indexed")
    rows_changed = mirror.has_foreign_row_changes
    (log.warning if rows_changed else log.info)(
        _ROWS_CHANGED if rows_changed else "commits of another writer indexed",
        table=name,
        files_added=len(difference.added),
        files_removed=len(difference.removed),
        files_with_deletes=len(difference.changed),
    )
    try:
        root = apply_foreign_writes(root, difference, shards, int(time.time() * 1000))
    except Corrupt:
        discard(io, [path for shard in shards for path in shard.paths])
        raise
    added = root.segments[: sum(1 for shard in shards if shard.segment)]
    return replace(mirror, root=root), added


def greatest_order(root: Root, parts: int) -> tuple[int, ...]:
    """Return the order of the newest change in the index; zeros for an empty one."""
    return max((segment.greatest for segment in root.segments), default=(0,) * parts)


def foreign_files(
    root: Root, difference: IndexDifference, deleted: Mapping[str, NDArray[np.int64]]
) -> tuple[ForeignFile, ...]:
    """Return the files to read, each with the ordinal that it has in the next root."""
    first = len(root.files)
    nothing = np.empty(0, dtype=np.int64)
    added = [
        ForeignFile(file.path, first + at, file.rows, deleted.get(file.path, nothing), added=True)
        for at, file in enumerate(difference.added)
    ]
    known = [
        ForeignFile(file.path, ordinal, file.rows, deleted.get(file.path, nothing), added=False)
        for ordinal, file in difference.changed.items()
    ]
    return (*added, *known)
