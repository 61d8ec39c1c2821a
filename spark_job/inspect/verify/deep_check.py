"""The deep check: all rows, all entries and all merged events, compared by key range to bound the memory."""

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
from spark_job.changelog.changes import Changes, concat_changes
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.read_changes import read_changes
from spark_job.changelog.read_rows import file_projection, project_rows, source_columns
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.unchanged_placeholder import UnchangedPlaceholder, placeholder_columns
from spark_job.columns.added_columns import DELETED
from spark_job.columns.distinct import distinct
from spark_job.columns.field_map import FieldMap
from spark_job.columns.missing_columns import MissingColumns, MissingValues
from spark_job.columns.parquet_columns import column_names, open_parquet, read_columns
from spark_job.columns.projection import Projection
from spark_job.engine.work import KeyOnlyWork
from spark_job.iceberg.live_files import LiveFile
from spark_job.index.keys import U64
from spark_job.index.scan import read_segment_entries
from spark_job.index.segment import TOMBSTONE, SegmentInfo, reading_segment
from spark_job.inspect.verify.compare_rows import (
    ENTRY,
    OF_HEAD,
    OF_INDEX,
    ROW,
    TOMBSTONE_ENTRY,
    ComparedRange,
    DifferenceLocation,
    compare_with_changelog,
    compare_with_index,
    no_keys,
)
from spark_job.inspect.verify.row_digest import digest_separately
from spark_job.inspect.verify.subject import VerifySubject
from spark_job.inspect.verify.verify_report import MAX_LOCATIONS, FindingKind
from spark_job.plan.schema_evolution import known_metadata_columns
from spark_job.write.vectors import deleted_positions

_BATCH_ROWS = 16_384


@dataclass(frozen=True)
class MirrorFile:
    """A data file of the head (`deleted`: its deleted rows), of the index's snapshot (`deleted_at_index`), or of both.

    `absent`: default values of columns that the file may lack.
    """

    path: str
    rows: int
    ordinal: int
    deleted: NDArray[np.int64] | None
    deleted_at_index: NDArray[np.int64] | None
    absent: MissingValues


@dataclass(frozen=True)
class DeepWork(KeyOnlyWork):
    """Compares all rows; sent to the tasks. Files are numbered: changelog, then mirror, then segments.

    `compare_events`, `compare_entries`: which of the two comparisons are made.
    """

    changelog_io: FileIO
    history: tuple[ChangelogFile, ...]
    io: FileIO
    mirrored: tuple[MirrorFile, ...]
    segments: tuple[SegmentInfo, ...]
    removed_ordinals: frozenset[int]
    shape: ChangelogShape
    field_map: FieldMap
    schema: Schema
    compare_events: bool
    compare_entries: bool
    flag_id: int | None = None  # the column that flags deleted rows, if the mirror has one

    @property
    def files(self) -> tuple[ChangelogFile, ...]:
        """The files to read. Segments have no rows here: key ranges are sampled from the other files."""
        rows = [ChangelogFile(file.path, 64 * file.rows, file.rows, 0, 0) for file in self.mirrored]
        entries = [ChangelogFile(segment.path, segment.bytes, 0, 0, 0) for segment in self.segments]
        return (*self.history, *rows, *entries)

    @property
    def key_ids(self) -> tuple[int, ...]:
        """The field ids of the mirror's key columns."""
        return tuple(self.field_map[key_id] for key_id in self.shape.key_ids)

    @property
    def _separate(self) -> tuple[str, ...]:
        """Columns that are hashed separately, because events may mark them as unchanged."""
        return placeholder_columns(self.schema, self.key_ids) if self.shape.unchanged_placeholder else ()

    @property
    def _values(self) -> int:
        """How many numbers represent a row; with soft deletes the first is the flag."""
        return len(self._separate) + 1 + int(self.shape.keeps_deleted_rows)

    @property
    def _width(self) -> int:
        return self.shape.sequence.parts + self._values

    def source(self, file: ChangelogFile) -> tuple[FileIO, tuple[int, ...]]:
        """Return the storage of a file and the field ids of its key."""
        mirrored = any(mirror_file.path == file.path for mirror_file in self.mirrored)
        return (self.io, self.key_ids) if mirrored else (self.changelog_io, self.shape.key_ids)

    def read(self, ordinals: range) -> Changes:
        """Read events, rows and entries of some files; `operation` distinguishes them."""
        return concat_changes([self._no_events(), *(self._read_file(at) for at in ordinals)])

    def _no_events(self) -> Changes:
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
        projection = file_projection(file, self.field_map, self.shape.defaults)
        digests = self._digests(self.changelog_io, file.events, projection, self.shape.unchanged_placeholder)
        flag = [np.zeros(len(events), dtype=np.uint64)] if self.shape.keeps_deleted_rows else []
        sequence = np.column_stack([events.sequence, *flag, digests[events.row]])
        return replace(events, sequence=sequence)

    def _read_rows(self, at: int) -> Changes:
        file = self.mirrored[at]
        with open_parquet(self.io, file.path, file.rows) as parquet:
            columns = read_columns(parquet, file.path, self.key_ids)
        if any(column.null_count for column in columns):
            raise Invalid(f"the mirror has rows without a key: {file.path}")
        kind = np.full(len(columns[0]), ROW, dtype=np.uint8)
        for deleted, bit in ((file.deleted, OF_HEAD), (file.deleted_at_index, OF_INDEX)):
            if deleted is not None:
                kind |= bit
                kind[deleted] ^= bit
        sequence = np.zeros((len(kind), self._width), dtype=np.uint64)
        if self.compare_events and file.deleted is not None:
            same = {target: target for target in self.field_map.values()}
            projection = Projection(file.path, same, file.absent)
            digests = self._digests(self.io, file.rows, projection)
            sequence[:, -digests.shape[1] :] = digests
            if self.shape.keeps_deleted_rows:
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
        """Return 1 for each row of a file that is flagged as deleted, else 0."""
        with open_parquet(self.io, file.path, file.rows) as parquet:
            if self.flag_id is None or self.flag_id not in column_names(parquet, file.path):
                return np.zeros(file.rows, dtype=np.uint64)
            (flags,) = read_columns(parquet, file.path, (self.flag_id,))
        found: U64 = flags.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint64)
        return found

    def _digests(
        self, io: FileIO, rows: int, projection: Projection, marker: UnchangedPlaceholder | None = None
    ) -> U64:
        """Hash each row of a file in the mirror's columns; the last hash covers all columns that are not separate."""
        target = schema_to_pyarrow(self.schema)
        with open_parquet(io, projection.path, rows) as parquet:
            sources = source_columns(parquet, projection)
            batches = parquet.iter_batches(_BATCH_ROWS, columns=list(sources.values()))
            parts = [
                digest_separately(
                    project_rows(pa.Table.from_batches([batch]), len(batch), sources, projection, target),
                    self._separate,
                    marker,
                )
                for batch in batches
            ]
        return np.concatenate([np.empty((0, len(self._separate) + 1), dtype=np.uint64), *parts])

    def _read_entries(self, at: int) -> Changes:
        segment = self.segments[at]
        with reading_segment(segment.path):
            entries = read_segment_entries(self.io, segment)
        ordinals = [TOMBSTONE if ordinal in self.removed_ordinals else ordinal for ordinal in segment.files]
        file = np.array([*ordinals, TOMBSTONE], dtype=np.int64)[entries.file]  # −1 picks the last
        deleted = file == TOMBSTONE
        sequence = np.zeros((len(file), self._width), dtype=np.uint64)
        sequence[:, -1] = at
        return Changes(
            entries.keys,
            np.where(deleted, TOMBSTONE_ENTRY, ENTRY).astype(np.uint8),
            sequence,
            np.where(deleted, 0, file).astype(np.uint32),
            np.where(deleted, 0, entries.pos).astype(np.uint32),
        )

    def _compare_events(
        self, changes: Changes
    ) -> Iterator[tuple[FindingKind, int, list[DifferenceLocation]]]:
        return compare_with_changelog(changes, self._values, keeps_deleted_rows=self.shape.keeps_deleted_rows)

    def merge(self, read: Callable[[], Changes]) -> ComparedRange:
        """Compare a range of keys."""
        changes = read()
        counts: dict[FindingKind, int] = {}
        locations: dict[FindingKind, tuple[DifferenceLocation, ...]] = {}
        ordinals = np.array([file.ordinal for file in self.mirrored], dtype=np.int64)
        runs = np.array([segment.run for segment in self.segments], dtype=np.int64)
        found = [
            *(self._compare_events(changes) if self.compare_events else ()),
            *(compare_with_index(changes, ordinals, runs) if self.compare_entries else ()),
        ]
        for kind, count, first_locations in found:
            if count:
                counts[kind], locations[kind] = count, tuple(first_locations)
        kinds = changes.operation
        return ComparedRange(
            counts,
            locations,
            rows=int((kinds >= ROW).sum()),
            events=int((kinds < ENTRY).sum()),
            entries=int(((kinds == ENTRY) | (kinds == TOMBSTONE_ENTRY)).sum()),
        )


def plan_deep(subject: VerifySubject, *, with_index: bool) -> DeepWork:
    """Plan a deep check; `with_index` is false if a segment cannot be read."""
    root = subject.mirror.root
    with_index = with_index and root is not None and subject.index_files is not None
    index_files = (subject.index_files or {}) if with_index else {}
    return DeepWork(
        changelog_io=subject.changelog.io,
        history=subject.history or (),
        io=subject.io,
        mirrored=_mirrored(subject, index_files),
        segments=root.segments if root and with_index else (),
        removed_ordinals=root.removed_ordinals if root else frozenset(),
        shape=subject.shape,
        field_map=subject.field_map,
        schema=subject.mirror.table.schema(),
        compare_events=subject.history is not None,
        compare_entries=with_index,
        flag_id=known_metadata_columns(subject.mirror.table.metadata).get(DELETED),
    )


def _mirrored(subject: VerifySubject, index_files: Mapping[str, LiveFile]) -> tuple[MirrorFile, ...]:
    now = subject.head_files
    root = subject.mirror.root
    ordinals = {file.path: at for at, file in enumerate(root.files) if not file.removed} if root else {}
    deleted, deleted_at_index = (
        _deleted_positions(subject.io, now),
        _deleted_positions(subject.io, index_files),
    )
    metadata = subject.mirror.table.metadata
    absent_in = MissingColumns(metadata.schema(), metadata.specs())
    return tuple(
        MirrorFile(
            path,
            file.rows,
            ordinals.get(path, -1),
            deleted.get(path),
            deleted_at_index.get(path),
            absent_in.values_in_file(file.spec_id, file.partition),
        )
        for path, file in {**index_files, **now}.items()
    )


def _deleted_positions(io: FileIO, files: Mapping[str, LiveFile]) -> dict[str, NDArray[np.int64]]:
    """Return the deleted positions of every file."""
    nothing = np.empty(0, dtype=np.int64)
    deleted = deleted_positions(io, {path: file for path, file in files.items() if file.deleted})
    return {path: distinct(deleted.get(path, nothing)) for path in files}


def combine_ranges(parts: list[ComparedRange]) -> ComparedRange:
    """Combine the results of all key ranges."""
    counts: dict[FindingKind, int] = {}
    locations: dict[FindingKind, tuple[DifferenceLocation, ...]] = {}
    for part in parts:
        for kind, count in part.counts.items():
            counts[kind] = counts.get(kind, 0) + count
            locations[kind] = (*locations.get(kind, ()), *part.locations[kind])[:MAX_LOCATIONS]
    return ComparedRange(
        counts,
        locations,
        rows=sum(part.rows for part in parts),
        events=sum(part.events for part in parts),
        entries=sum(part.entries for part in parts),
    )
