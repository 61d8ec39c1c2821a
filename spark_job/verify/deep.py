"""The deep check: all rows, all entries, all of the merged history; cut by key range so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from icemirror.errors import Invalid
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import Changes, concat_changes
from spark_job.changelog.marker import Marker, markable
from spark_job.changelog.read_changes import read_changes
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.source_rows import project_rows, projection_of, source_columns
from spark_job.columns.absent import Absent, AbsentIn
from spark_job.columns.field_map import FieldMap
from spark_job.columns.own_columns import DELETED
from spark_job.columns.parquet_columns import column_names, open_parquet, read_columns
from spark_job.columns.projection import Projection
from spark_job.distinct import distinct
from spark_job.iceberg.view import LiveFile
from spark_job.key_index.damage import reading_segment
from spark_job.key_index.keys import U64
from spark_job.key_index.scan import read_entries
from spark_job.key_index.segment import TOMBSTONE, SegmentInfo
from spark_job.runtime.work import NarrowWork
from spark_job.schema_changes.evolution import known_own
from spark_job.verify.compare_rows import (
    ENTRY,
    OF_HEAD,
    OF_INDEX,
    ROW,
    TOMBSTONE_ENTRY,
    Compared,
    Spot,
    compare_changelog,
    compare_index,
    no_keys,
)
from spark_job.verify.findings import MOST_PLACES, Kind
from spark_job.verify.row_digest import digest_apart
from spark_job.verify.subject import Subject
from spark_job.write.vectors import deleted_positions

_BATCH_ROWS = 16_384


@dataclass(frozen=True)
class MirrorFile:
    """A data file of the head, of the index's snapshot, or of both: what is deleted there, or None if not listed.

    `absent`: what the columns hold that it may not have.
    """

    path: str
    rows: int
    ordinal: int
    dead: NDArray[np.int64] | None
    dead_then: NDArray[np.int64] | None
    absent: Absent


@dataclass(frozen=True)
class DeepWork(NarrowWork):
    """Compares; sent to the tasks. The files are those of the changelog, then the mirror's, then the segments.

    `compare_events`, `compare_entries`: which of the two comparisons are made.
    """

    changelog_io: FileIO
    history: tuple[ChangeFile, ...]
    io: FileIO
    mirrored: tuple[MirrorFile, ...]
    segments: tuple[SegmentInfo, ...]
    gone: frozenset[int]
    shape: ChangelogShape
    field_map: FieldMap
    schema: Schema
    compare_events: bool
    compare_entries: bool
    flag_id: int | None = None  # the column that says that a row is deleted, where the mirror has one

    @property
    def files(self) -> tuple[ChangeFile, ...]:
        """What is read. Segments weigh by their bytes only: keys are sampled from the others."""
        rows = [ChangeFile(file.path, 64 * file.rows, file.rows, 0, 0) for file in self.mirrored]
        entries = [ChangeFile(segment.path, segment.bytes, 0, 0, 0) for segment in self.segments]
        return (*self.history, *rows, *entries)

    @property
    def key_ids(self) -> tuple[int, ...]:
        """The mirror's key columns."""
        return tuple(self.field_map[key_id] for key_id in self.shape.key_ids)

    @property
    def _apart(self) -> tuple[str, ...]:
        """Columns that are compared each by itself, because events may say that they have not changed."""
        return markable(self.schema, self.key_ids) if self.shape.marker else ()

    @property
    def _values(self) -> int:
        """How many numbers tell one row from another: where deletes keep their rows, the flag is the first."""
        return len(self._apart) + 1 + int(self.shape.keeps_deleted)

    @property
    def _width(self) -> int:
        return self.shape.sequence.parts + self._values

    def source(self, file: ChangeFile) -> tuple[FileIO, tuple[int, ...]]:
        """Changelog or mirror, and the field ids of the key there."""
        mirrored = any(one.path == file.path for one in self.mirrored)
        return (self.io, self.key_ids) if mirrored else (self.changelog_io, self.shape.key_ids)

    def read(self, ordinals: range) -> Changes:
        """Events, rows and entries of some files, told apart by their operation."""
        return concat_changes([self._nothing(), *(self._read_file(at) for at in ordinals)])

    def _nothing(self) -> Changes:
        return Changes(
            no_keys(self.codec.is_wide),
            np.empty(0, np.uint8),
            np.empty((0, self._width), np.uint64),
            np.empty(0, np.uint32),
            np.empty(0, np.uint32),
        )

    def _read_file(self, at: int) -> Changes:
        if at < len(self.history):
            return self._read_events(at)
        at -= len(self.history)
        return self._read_rows(at) if at < len(self.mirrored) else self._read_entries(at - len(self.mirrored))

    def _read_events(self, at: int) -> Changes:
        file = self.history[at]
        events = read_changes(self.changelog_io, file, at, self.shape)
        by = projection_of(file, self.field_map, self.shape.defaults)
        digests = self._digests(self.changelog_io, file.events, by, self.shape.marker)
        flag = [np.zeros(len(events), dtype=np.uint64)] if self.shape.keeps_deleted else []
        sequence = np.column_stack([events.sequence, *flag, digests[events.row]])
        return replace(events, sequence=sequence)

    def _read_rows(self, at: int) -> Changes:
        file = self.mirrored[at]
        with open_parquet(self.io, file.path, file.rows) as parquet:
            columns = read_columns(parquet, file.path, self.key_ids)
        if any(column.null_count for column in columns):
            raise Invalid(f"{file.path}: has rows without a key")
        kind = np.full(len(columns[0]), ROW, dtype=np.uint8)
        for dead, bit in ((file.dead, OF_HEAD), (file.dead_then, OF_INDEX)):
            if dead is not None:
                kind |= bit
                kind[dead] ^= bit
        sequence = np.zeros((len(kind), self._width), dtype=np.uint64)
        if self.compare_events and file.dead is not None:
            same = {target: target for target in self.field_map.values()}
            by = Projection(file.path, same, file.absent)
            digests = self._digests(self.io, file.rows, by)
            sequence[:, -digests.shape[1] :] = digests
            if self.shape.keeps_deleted:
                sequence[:, -self._values] = self._flags(file)
        rows = Changes(
            self.codec.encode(columns),
            kind,
            sequence,
            np.full(len(kind), at, dtype=np.uint32),
            np.arange(len(kind), dtype=np.uint32),
        )
        return rows.take(kind > ROW)

    def _flags(self, file: MirrorFile) -> U64:
        """Which rows of a file are flagged as deleted: 1, else 0."""
        with open_parquet(self.io, file.path, file.rows) as parquet:
            if self.flag_id is None or self.flag_id not in column_names(parquet, file.path):
                return np.zeros(file.rows, dtype=np.uint64)
            (flags,) = read_columns(parquet, file.path, (self.flag_id,))
        found: U64 = flags.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint64)
        return found

    def _digests(self, io: FileIO, rows: int, by: Projection, marker: Marker | None = None) -> U64:
        """Numbers for each row of a file, in the mirror's columns; the last of them for most, or all."""
        target = schema_to_pyarrow(self.schema)
        with open_parquet(io, by.path, rows) as parquet:
            sources = source_columns(parquet, by)
            batches = parquet.iter_batches(_BATCH_ROWS, columns=list(sources.values()))
            parts = [
                digest_apart(
                    project_rows(pa.Table.from_batches([batch]), len(batch), sources, by, target),
                    self._apart,
                    marker,
                )
                for batch in batches
            ]
        return np.concatenate([np.empty((0, len(self._apart) + 1), dtype=np.uint64), *parts])

    def _read_entries(self, at: int) -> Changes:
        segment = self.segments[at]
        with reading_segment(segment.path):
            entries = read_entries(self.io, segment)
        names = [TOMBSTONE if ordinal in self.gone else ordinal for ordinal in segment.files]
        file = np.array([*names, TOMBSTONE], dtype=np.int64)[entries.file]  # −1 picks the last
        dead = file == TOMBSTONE
        sequence = np.zeros((len(file), self._width), dtype=np.uint64)
        sequence[:, -1] = at
        return Changes(
            entries.keys,
            np.where(dead, TOMBSTONE_ENTRY, ENTRY).astype(np.uint8),
            sequence,
            np.where(dead, 0, file).astype(np.uint32),
            np.where(dead, 0, entries.pos).astype(np.uint32),
        )

    def _compare_events(self, changes: Changes) -> Iterator[tuple[Kind, int, list[Spot]]]:
        return compare_changelog(changes, self._values, keeps_deleted=self.shape.keeps_deleted)

    def merge(self, read: Callable[[], Changes]) -> Compared:
        """Compares a range of keys."""
        changes = read()
        counts: dict[Kind, int] = {}
        spots: dict[Kind, tuple[Spot, ...]] = {}
        ordinals = np.array([file.ordinal for file in self.mirrored], dtype=np.int64)
        runs = np.array([segment.run for segment in self.segments], dtype=np.int64)
        found = [
            *(self._compare_events(changes) if self.compare_events else ()),
            *(compare_index(changes, ordinals, runs) if self.compare_entries else ()),
        ]
        for kind, count, where in found:
            if count:
                counts[kind], spots[kind] = count, tuple(where)
        kinds = changes.operation
        return Compared(
            counts,
            spots,
            rows=int((kinds >= ROW).sum()),
            events=int((kinds < ENTRY).sum()),
            entries=int(((kinds == ENTRY) | (kinds == TOMBSTONE_ENTRY)).sum()),
        )


def plan_deep(subject: Subject, *, with_index: bool) -> DeepWork:
    """The work of a deep check; `with_index` is false where a segment cannot be read."""
    root = subject.mirror.root
    with_index = with_index and root is not None and subject.index_files is not None
    then = (subject.index_files or {}) if with_index else {}
    return DeepWork(
        changelog_io=subject.changelog.io,
        history=subject.history or (),
        io=subject.io,
        mirrored=_mirrored(subject, then),
        segments=root.segments if root and with_index else (),
        gone=root.gone if root else frozenset(),
        shape=subject.shape,
        field_map=subject.field_map,
        schema=subject.mirror.table.schema(),
        compare_events=subject.history is not None,
        compare_entries=with_index,
        flag_id=known_own(subject.mirror.table.metadata).get(DELETED),
    )


def _mirrored(subject: Subject, then: Mapping[str, LiveFile]) -> tuple[MirrorFile, ...]:
    now = subject.head_files
    root = subject.mirror.root
    ordinals = {file.path: at for at, file in enumerate(root.files) if not file.gone} if root else {}
    dead, dead_then = _dead(subject.io, now), _dead(subject.io, then)
    metadata = subject.mirror.table.metadata
    absent_in = AbsentIn(metadata.schema(), metadata.specs())
    return tuple(
        MirrorFile(
            path,
            file.rows,
            ordinals.get(path, -1),
            dead.get(path),
            dead_then.get(path),
            absent_in.of(file.spec_id, file.partition),
        )
        for path, file in {**then, **now}.items()
    )


def _dead(io: FileIO, files: Mapping[str, LiveFile]) -> dict[str, NDArray[np.int64]]:
    """The deleted positions of each file, of those without any too."""
    nothing = np.empty(0, dtype=np.int64)
    deleted = deleted_positions(io, {path: file for path, file in files.items() if file.deleted})
    return {path: distinct(deleted.get(path, nothing)) for path in files}


def fold(parts: list[Compared]) -> Compared:
    """All ranges together."""
    counts: dict[Kind, int] = {}
    spots: dict[Kind, tuple[Spot, ...]] = {}
    for part in parts:
        for kind, count in part.counts.items():
            counts[kind] = counts.get(kind, 0) + count
            spots[kind] = (*spots.get(kind, ()), *part.spots[kind])[:MOST_PLACES]
    return Compared(
        counts,
        spots,
        rows=sum(part.rows for part in parts),
        events=sum(part.events for part in parts),
        entries=sum(part.entries for part in parts),
    )
