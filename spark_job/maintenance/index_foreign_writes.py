"""Indexes what another engine committed on the mirror: new rows become entries, deleted rows become tombstones.

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

from icemirror.errors import REBUILD_ADVICE, Corrupt, Invalid
from icemirror.processes.crash_points import crash_point
from icemirror.telemetry.logs import get_log
from spark_job.changelog.event_batch import EventBatch, concat_events
from spark_job.changelog.shape import ChangelogShape, Operation
from spark_job.columns.arrays import Indices
from spark_job.columns.distinct import distinct
from spark_job.columns.parquet_columns import open_parquet, read_columns, read_rows_at
from spark_job.engine.engine import Engine
from spark_job.engine.work import KeyOnlyWork, MirrorWorkFile, WorkFile
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.mirror import Mirror
from spark_job.index.keys import concat_keys, isin_sorted
from spark_job.index.root import IndexedFile, Root
from spark_job.index.segment import TOMBSTONE, Entries, SegmentInfo
from spark_job.index.write_segment import write_new_segment
from spark_job.merge.locate import SearchableIndex, read_key_entries
from spark_job.storage.discard import discard_on_error
from spark_job.write.read_deletes import read_deleted_positions, with_distinct_deletes

# Merges do not restore such rows until an event of their key arrives.
_ROWS_CHANGED_ADVICE = (
    "`icemirror verify --deep` lists the changed rows, `icemirror replay --full` restores them from "
    "the changelog"
)
_DUPLICATE_KEY = (
    "{name}: {first} has the key of {second}. A mirror has one row for each key: delete one of them with the engine "
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
    """Return how the live files of a table differ from the files that its index counts."""
    indexed_paths = {file.path for file in root.files if not file.removed}
    return IndexDifference(
        added=tuple(file for path, file in live.items() if path not in indexed_paths),
        removed=frozenset(
            ordinal for ordinal, file in enumerate(root.files) if not file.removed and file.path not in live
        ),
        changed={
            ordinal: live[file.path]
            for ordinal, file in enumerate(root.files)
            if file.path in live and not file.removed and live[file.path].live_rows != file.live_rows
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
        ordinal: file
        for ordinal, file in zip(difference.changed, changed, strict=True)
        if file.live_rows != root.files[ordinal].live_rows
    }
    return IndexDifference(tuple(added), difference.removed, still_changed)


@dataclass(frozen=True)
class ForeignFile:
    """A data file to read: all live rows of an added file, only the deleted rows of an indexed one."""

    path: str
    ordinal: int
    rows: int
    deleted: NDArray[np.int64]
    added: bool

    @property
    def keys(self) -> int:
        """The number of keys that are read from it."""
        return self.rows if self.added else len(self.deleted)


@dataclass(frozen=True)
class IndexedShard:
    """The segment of a key range, and how many rows another engine deleted, by ordinal of the data file."""

    segment: SegmentInfo | None
    removed_rows: Mapping[int, int]

    @property
    def paths(self) -> list[str]:
        """Every file that the shard wrote."""
        return [self.segment.path] if self.segment else []


@dataclass(frozen=True)
class ForeignWritesWork(KeyOnlyWork):
    """Indexes the rows that another engine added and deleted; sent to the tasks."""

    name: str
    io: FileIO
    foreign_files: tuple[ForeignFile, ...]
    key_ids: tuple[int, ...]
    shape: ChangelogShape
    index: SearchableIndex
    default_order: tuple[int, ...]
    location: str

    @property
    def files(self) -> tuple[WorkFile, ...]:
        """The files to read; estimated at eight bytes of key per row."""
        return tuple(MirrorWorkFile(file.path, 8 * file.keys, file.keys) for file in self.foreign_files)

    def key_source(self, file: WorkFile) -> tuple[FileIO, tuple[int, ...]]:
        """Return the mirror's storage and the field ids of its key."""
        return self.io, self.key_ids

    def read(self, ordinals: range) -> EventBatch:
        """Read the keys of some files: added rows as upserts, deleted rows as deletes."""
        return concat_events([self._read_file(ordinal) for ordinal in ordinals])

    def _read_file(self, ordinal: int) -> EventBatch:
        file = self.foreign_files[ordinal]
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
            raise Invalid(f"{self.name}: another writer added rows without a key: {file.path}")
        operation = Operation.UPSERT if file.added else Operation.DELETE
        return EventBatch(
            keys=self.codec.encode(columns),
            operation=np.full(len(rows), operation, dtype=np.uint8),
            sequence=np.empty((len(rows), 0), dtype=np.uint64),
            file=np.full(len(rows), ordinal, dtype=np.uint32),
            row=rows.astype(np.uint32),
        )

    def run_shard(self, read: Callable[[], EventBatch]) -> IndexedShard:
        """Index a range of keys. Return its segment."""
        events = read()
        events = events.take(events.keys.argsort())
        is_added = events.operation == Operation.UPSERT
        entries, removed_rows = self._entries_and_removed_rows(events.take(is_added), events.take(~is_added))
        paths = {file.ordinal: file.path for file in self.foreign_files}
        return IndexedShard(
            write_new_segment(self.io, self.location, entries, self.shape.key_definition, paths), removed_rows
        )

    def _entries_and_removed_rows(
        self, rows: EventBatch, deleted: EventBatch
    ) -> tuple[Entries, dict[int, int]]:
        """Return entries for added rows and tombstones for rows that were live until now; removed rows by file.

        Both keep the order that the index has for their key. A deleted row counts only if the index points at it.
        """
        ordinals = np.array([file.ordinal for file in self.foreign_files], dtype=np.int32)
        self._refuse_duplicates_among_added(rows, np.flatnonzero(rows.keys.same_as_next()))
        deleted_entries = read_key_entries(self.index, deleted.keys, self.default_order)
        was_live = (deleted_entries.file == ordinals[deleted.file]) & (deleted_entries.pos == deleted.row)
        deleted_live = deleted.take(was_live)
        old_entries = read_key_entries(self.index, rows.keys, self.default_order)
        self._refuse_duplicates_of_live_rows(
            rows,
            np.flatnonzero((old_entries.file >= 0) & ~isin_sorted(rows.keys, deleted_live.keys)),
            old_entries.file,
        )
        needs_tombstone = ~isin_sorted(deleted_live.keys, rows.keys)
        keys = concat_keys([rows.keys, deleted_live.keys.take(needs_tombstone)])
        tombstones = int(needs_tombstone.sum())
        order = keys.argsort()
        files, counts = np.unique(ordinals[deleted_live.file], return_counts=True)
        entries = Entries(
            keys.take(order),
            np.concatenate([ordinals[rows.file], np.full(tombstones, TOMBSTONE, np.int32)])[order],
            np.concatenate([rows.row.astype(np.int64), np.zeros(tombstones, np.int64)])[order],
            np.concatenate([old_entries.orders, deleted_entries.orders[was_live][needs_tombstone]])[order],
        )
        return entries, dict(zip(files.tolist(), counts.tolist(), strict=True))

    def _refuse_duplicates_among_added(self, rows: EventBatch, duplicates: Indices) -> None:
        if len(duplicates):
            first, second = (self._describe_row(rows, int(duplicates[0]) + step) for step in (0, 1))
            raise Invalid(_DUPLICATE_KEY.format(name=self.name, first=first, second=second))

    def _refuse_duplicates_of_live_rows(
        self, rows: EventBatch, duplicates: Indices, file: NDArray[np.int32]
    ) -> None:
        if len(duplicates):
            index = int(duplicates[0])
            second = f"a row of data file number {int(file[index])} of the index"
            raise Invalid(
                _DUPLICATE_KEY.format(name=self.name, first=self._describe_row(rows, index), second=second)
            )

    def _describe_row(self, rows: EventBatch, index: int) -> str:
        return f"row {int(rows.row[index])} of {self.foreign_files[int(rows.file[index])].path}"


def to_indexed_file(file: LiveFile) -> IndexedFile:
    """Return the entry of the root for a live file."""
    return IndexedFile(path=file.path, rows=file.rows, live_rows=file.live_rows)


def apply_foreign_writes(
    root: Root, difference: IndexDifference, shards: list[IndexedShard], written_at_ms: int
) -> Root:
    """Return the root that matches the table; raise `Corrupt` if the deleted rows differ between index and table."""
    removed_rows: dict[int, int] = {}
    for shard in shards:
        for ordinal, count in shard.removed_rows.items():
            removed_rows[ordinal] = removed_rows.get(ordinal, 0) + count
    files = [
        _update_file(ordinal, file, difference, removed_rows.get(ordinal, 0))
        for ordinal, file in enumerate(root.files)
    ]
    files.extend(map(to_indexed_file, difference.added))
    segments = [
        shard.segment.with_sorted_run(root.next_sorted_run, written_at_ms)
        for shard in shards
        if shard.segment
    ]
    return root.model_copy(
        update={
            "segments": (*segments, *root.segments),
            "files": tuple(files),
            "next_sorted_run": root.next_sorted_run + 1,
        }
    )


def _update_file(
    ordinal: int, file: IndexedFile, difference: IndexDifference, removed_rows: int
) -> IndexedFile:
    if ordinal in difference.removed:
        return file.model_copy(update={"live_rows": 0, "removed": True})
    if ordinal not in difference.changed:
        return file
    live_rows = difference.changed[ordinal].live_rows
    if file.live_rows - live_rows != removed_rows:
        raise Corrupt(
            f"another writer deleted {file.live_rows - live_rows} rows, but the key index has {removed_rows} of them; "
            f"nothing was committed. To continue, {REBUILD_ADVICE}. The data file: {file.path}"
        )
    return file.model_copy(update={"live_rows": live_rows})


def index_foreign_writes(
    engine: Engine, mirror: Mirror, shape: ChangelogShape, location: str
) -> tuple[Mirror, tuple[SegmentInfo, ...]]:
    """Return the mirror with an index that includes foreign writes, and the segments written for it."""
    if not mirror.has_foreign_writes or mirror.root is None:
        return mirror, ()
    root, io = mirror.root, mirror.table.io
    live = live_files(io, mirror.head)
    difference = compare_files(root, live)
    if not difference:
        return mirror, ()
    files_with_deletes = {
        file.path: file for file in (*difference.added, *difference.changed.values()) if file.deleted_rows
    }
    deleted = {
        path: distinct(positions)
        for path, positions in read_deleted_positions(io, files_with_deletes).items()
    }
    difference = count_distinct_deletes(root, difference, deleted)
    if not difference:
        return mirror, ()
    name = ".".join(mirror.table.name())
    work = ForeignWritesWork(
        name=name,
        io=io,
        foreign_files=list_foreign_files(root, difference, deleted),
        key_ids=tuple(mirror.field_map[key_id] for key_id in shape.key_ids),
        shape=shape,
        index=SearchableIndex(io, root.segments, root.removed_ordinals | difference.removed),
        default_order=newest_order_in_index(root, shape.sequence.parts + 1),
        location=location,
    )
    shards = engine.run(work) if work.foreign_files else []
    crash_point("foreign-writes-indexed")
    counts = {
        "files_added": len(difference.added),
        "files_removed": len(difference.removed),
        "files_with_deletes": len(difference.changed),
    }
    if mirror.has_foreign_row_changes:
        log.warning("foreign writes changed rows", table=name, **counts, advice=_ROWS_CHANGED_ADVICE)
    else:
        log.info("foreign writes indexed", table=name, **counts)
    with discard_on_error(io, [path for shard in shards for path in shard.paths]):
        root = apply_foreign_writes(root, difference, shards, int(time.time() * 1000))
    added = root.segments[: sum(1 for shard in shards if shard.segment)]
    return replace(mirror, root=root), added


def newest_order_in_index(root: Root, parts: int) -> tuple[int, ...]:
    """Return the order of the newest change in the index; zeros for an empty one."""
    return max((segment.greatest_order for segment in root.segments), default=(0,) * parts)


def list_foreign_files(
    root: Root, difference: IndexDifference, deleted: Mapping[str, NDArray[np.int64]]
) -> tuple[ForeignFile, ...]:
    """Return the files to read, each with the ordinal that it has in the next root."""
    no_positions = np.empty(0, dtype=np.int64)
    added = [
        ForeignFile(file.path, ordinal, file.rows, deleted.get(file.path, no_positions), added=True)
        for ordinal, file in enumerate(difference.added, len(root.files))
    ]
    changed = [
        ForeignFile(file.path, ordinal, file.rows, deleted.get(file.path, no_positions), added=False)
        for ordinal, file in difference.changed.items()
    ]
    return (*added, *changed)
