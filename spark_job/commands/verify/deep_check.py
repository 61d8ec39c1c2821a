"""The deep check: all rows, all entries and all merged events, compared by key range to bound the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from icemirror.errors import Invalid
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.event_batch import EventBatch, concat_events
from spark_job.changelog.read_events import read_events
from spark_job.changelog.read_rows import file_projection, project_rows, source_columns
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.unchanged_placeholder import UnchangedPlaceholder, placeholder_columns
from spark_job.columns.added_columns import DELETED_FLAG
from spark_job.columns.arrays import U64
from spark_job.columns.distinct import distinct
from spark_job.columns.field_map import FieldMap
from spark_job.columns.missing_columns import MissingColumns, MissingValues
from spark_job.columns.parquet_columns import column_names, open_parquet, read_columns
from spark_job.columns.projection import Projection
from spark_job.commands.verify.compare_rows import (
    ENTRY,
    IN_HEAD,
    IN_INDEX,
    ROW,
    TOMBSTONE_ENTRY,
    ComparedRange,
    DifferenceLocation,
    compare_with_changelog,
    compare_with_index,
    no_keys,
)
from spark_job.commands.verify.row_digest import digest_separately
from spark_job.commands.verify.subject import VerifySubject
from spark_job.commands.verify.verify_report import MAX_LOCATIONS, FindingKind
from spark_job.engine.work import KeyOnlyWork, MirrorWorkFile, WorkFile
from spark_job.iceberg.live_files import LiveFile
from spark_job.iceberg.merged_schema import known_metadata_columns
from spark_job.index.damaged_segment import reading_segment
from spark_job.index.scan import read_segment_entries
from spark_job.index.segment import TOMBSTONE, SegmentInfo
from spark_job.write.read_deletes import read_deleted_positions

_BATCH_ROWS = 16_384


@dataclass(frozen=True)
class MirrorFile:
    """A data file of the head, of the index's snapshot, or of both.

    `deleted_in_head`, `deleted_in_index`: the deleted rows; None if the file is not in that snapshot. `ordinal`: in the
    index. `missing_values`: default values of columns that the file may lack.
    """

    path: str
    rows: int
    ordinal: int
    deleted_in_head: NDArray[np.int64] | None
    deleted_in_index: NDArray[np.int64] | None
    missing_values: MissingValues


@dataclass(frozen=True)
class DeepWork(KeyOnlyWork):
    """Compares all rows, entries and events by key. Files are numbered: changelog, then mirror, then segments.

    `compare_events`, `compare_entries`: which of the two comparisons are made.
    """

    changelog_io: FileIO
    history: tuple[ChangelogFile, ...]
    io: FileIO
    mirror_files: tuple[MirrorFile, ...]
    segments: tuple[SegmentInfo, ...]
    removed_ordinals: frozenset[int]
    shape: ChangelogShape
    field_map: FieldMap
    schema: Schema
    compare_events: bool
    compare_entries: bool
    flag_id: int | None = None  # the column that flags deleted rows, if the mirror has one

    @property
    def files(self) -> tuple[WorkFile, ...]:
        """The files to read. Segments have no rows here: key ranges are sampled from the other files."""
        rows = [MirrorWorkFile(file.path, 64 * file.rows, file.rows) for file in self.mirror_files]
        entries = [MirrorWorkFile(segment.path, segment.bytes, 0) for segment in self.segments]
        return (*self.history, *rows, *entries)

    @property
    def key_ids(self) -> tuple[int, ...]:
        """The field ids of the mirror's key columns."""
        return tuple(self.field_map[key_id] for key_id in self.shape.key_ids)

    @property
    def _placeholder_columns(self) -> tuple[str, ...]:
        """Columns with a separate digest, because events may mark them as unchanged."""
        return placeholder_columns(self.schema, self.key_ids) if self.shape.unchanged_placeholder else ()

    @property
    def _digest_count(self) -> int:
        """How many digests a row has; with soft deletes the first is the flag."""
        return len(self._placeholder_columns) + 1 + int(self.shape.keeps_deleted_rows)

    @property
    def _sequence_width(self) -> int:
        return self.shape.sequence.parts + self._digest_count

    def key_source(self, file: WorkFile) -> tuple[FileIO, tuple[int, ...]]:
        """Return the storage of a file, and the field ids of its key."""
        is_mirror_file = any(mirror_file.path == file.path for mirror_file in self.mirror_files)
        return (self.io, self.key_ids) if is_mirror_file else (self.changelog_io, self.shape.key_ids)

    def read(self, ordinals: range) -> EventBatch:
        """Return events, rows and entries of some files; `operation` distinguishes them."""
        return concat_events([self._empty_batch(), *(self._read_file(ordinal) for ordinal in ordinals)])

    def _empty_batch(self) -> EventBatch:
        return EventBatch(
            no_keys(self.codec.is_wide),
            np.empty(0, np.uint8),
            np.empty((0, self._sequence_width), np.uint64),
            np.empty(0, np.uint32),
            np.empty(0, np.uint32),
        )

    def _read_file(self, ordinal: int) -> EventBatch:
        if ordinal < len(self.history):
            return self._read_events(ordinal)
        ordinal -= len(self.history)
        return (
            self._read_rows(ordinal)
            if ordinal < len(self.mirror_files)
            else self._read_entries(ordinal - len(self.mirror_files))
        )

    def _read_events(self, ordinal: int) -> EventBatch:
        file = self.history[ordinal]
        events = read_events(self.changelog_io, file, ordinal, self.shape)
        projection = file_projection(file, self.field_map, self.shape.defaults)
        digests = self._digest_file(
            self.changelog_io, file.events, projection, self.shape.unchanged_placeholder
        )
        flag = [np.zeros(len(events), dtype=np.uint64)] if self.shape.keeps_deleted_rows else []
        sequence = np.column_stack([events.sequence, *flag, digests[events.row]])
        return replace(events, sequence=sequence)

    def _read_rows(self, ordinal: int) -> EventBatch:
        file = self.mirror_files[ordinal]
        with open_parquet(self.io, file.path, file.rows) as parquet:
            columns = read_columns(parquet, file.path, self.key_ids)
        if any(column.null_count for column in columns):
            raise Invalid(f"the mirror has rows without a key: {file.path}")
        operation = np.full(len(columns[0]), ROW, dtype=np.uint8)
        for deleted, bit in ((file.deleted_in_head, IN_HEAD), (file.deleted_in_index, IN_INDEX)):
            if deleted is not None:
                operation |= bit
                operation[deleted] ^= bit
        sequence = np.zeros((len(operation), self._sequence_width), dtype=np.uint64)
        if self.compare_events and file.deleted_in_head is not None:
            identity_map = {mirror_id: mirror_id for mirror_id in self.field_map.values()}
            projection = Projection(file.path, identity_map, file.missing_values)
            digests = self._digest_file(self.io, file.rows, projection)
            sequence[:, -digests.shape[1] :] = digests
            if self.shape.keeps_deleted_rows:
                sequence[:, -self._digest_count] = self._read_flags(file)
        rows = EventBatch(
            self.codec.encode(columns),
            operation,
            sequence,
            np.full(len(operation), ordinal, dtype=np.uint32),
            np.arange(len(operation), dtype=np.uint32),
        )
        return rows.take(operation > ROW)

    def _read_flags(self, file: MirrorFile) -> U64:
        """Return 1 for each row of a file that is flagged as deleted, else 0."""
        with open_parquet(self.io, file.path, file.rows) as parquet:
            if self.flag_id is None or self.flag_id not in column_names(parquet, file.path):
                return np.zeros(file.rows, dtype=np.uint64)
            (flags,) = read_columns(parquet, file.path, (self.flag_id,))
        is_flagged: U64 = flags.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint64)
        return is_flagged

    def _digest_file(
        self, io: FileIO, rows: int, projection: Projection, marker: UnchangedPlaceholder | None = None
    ) -> U64:
        """Return the digests of each row of a file; the last one covers all columns without a separate digest."""
        target = schema_to_pyarrow(self.schema)
        with open_parquet(io, projection.path, rows) as parquet:
            sources = source_columns(parquet, projection)
            batches = parquet.iter_batches(_BATCH_ROWS, columns=list(sources.values()))
            batch_digests = [
                digest_separately(
                    project_rows(pa.Table.from_batches([batch]), len(batch), sources, projection, target),
                    self._placeholder_columns,
                    marker,
                )
                for batch in batches
            ]
        return np.concatenate(
            [np.empty((0, len(self._placeholder_columns) + 1), dtype=np.uint64), *batch_digests]
        )

    def _read_entries(self, segment_number: int) -> EventBatch:
        segment = self.segments[segment_number]
        with reading_segment(segment.path):
            entries = read_segment_entries(self.io, segment)
        ordinals = [TOMBSTONE if ordinal in self.removed_ordinals else ordinal for ordinal in segment.files]
        file = np.array([*ordinals, TOMBSTONE], dtype=np.int64)[entries.file]  # −1 picks the last
        is_tombstone = file == TOMBSTONE
        sequence = np.zeros((len(file), self._sequence_width), dtype=np.uint64)
        sequence[:, -1] = segment_number
        return EventBatch(
            entries.keys,
            np.where(is_tombstone, TOMBSTONE_ENTRY, ENTRY).astype(np.uint8),
            sequence,
            np.where(is_tombstone, 0, file).astype(np.uint32),
            np.where(is_tombstone, 0, entries.pos).astype(np.uint32),
        )

    def _compare_events(
        self, compared: EventBatch
    ) -> Iterator[tuple[FindingKind, int, list[DifferenceLocation]]]:
        return compare_with_changelog(
            compared, self._digest_count, keeps_deleted_rows=self.shape.keeps_deleted_rows
        )

    def run_shard(self, read: Callable[[], EventBatch]) -> ComparedRange:
        """Return the differences in a range of keys."""
        compared = read()
        counts: dict[FindingKind, int] = {}
        locations: dict[FindingKind, tuple[DifferenceLocation, ...]] = {}
        ordinals = np.array([file.ordinal for file in self.mirror_files], dtype=np.int64)
        runs = np.array([segment.sorted_run for segment in self.segments], dtype=np.int64)
        differences = [
            *(self._compare_events(compared) if self.compare_events else ()),
            *(compare_with_index(compared, ordinals, runs) if self.compare_entries else ()),
        ]
        for finding_kind, count, first_locations in differences:
            if count:
                counts[finding_kind], locations[finding_kind] = count, tuple(first_locations)
        operation = compared.operation
        return ComparedRange(
            counts,
            locations,
            rows=int((operation >= ROW).sum()),
            events=int((operation < ENTRY).sum()),
            entries=int(((operation == ENTRY) | (operation == TOMBSTONE_ENTRY)).sum()),
        )


AnyDeepWork = TypeVar("AnyDeepWork", bound=DeepWork)


def plan_deep(subject: VerifySubject, *, with_index: bool, work_type: type[AnyDeepWork]) -> AnyDeepWork:
    """Return the work of a deep check; `with_index` is false if a segment cannot be read."""
    root = subject.mirror.root
    with_index = with_index and root is not None and subject.index_files is not None
    index_files = (subject.index_files or {}) if with_index else {}
    return work_type(
        changelog_io=subject.changelog.io,
        history=subject.history or (),
        io=subject.io,
        mirror_files=_list_mirror_files(subject, index_files),
        segments=root.segments if root and with_index else (),
        removed_ordinals=root.removed_ordinals if root else frozenset(),
        shape=subject.shape,
        field_map=subject.field_map,
        schema=subject.mirror.table.schema(),
        compare_events=subject.history is not None,
        compare_entries=with_index,
        flag_id=known_metadata_columns(subject.mirror.table.metadata).get(DELETED_FLAG),
    )


def _list_mirror_files(subject: VerifySubject, index_files: Mapping[str, LiveFile]) -> tuple[MirrorFile, ...]:
    head_files = subject.head_files
    root = subject.mirror.root
    ordinals = (
        {file.path: ordinal for ordinal, file in enumerate(root.files) if not file.removed} if root else {}
    )
    deleted_in_head, deleted_in_index = (
        _deleted_positions(subject.io, head_files),
        _deleted_positions(subject.io, index_files),
    )
    metadata = subject.mirror.table.metadata
    missing_columns = MissingColumns(metadata.schema(), metadata.specs())
    return tuple(
        MirrorFile(
            path,
            file.rows,
            ordinals.get(path, -1),
            deleted_in_head.get(path),
            deleted_in_index.get(path),
            missing_columns.values_in_file(file.spec_id, file.partition),
        )
        for path, file in {**index_files, **head_files}.items()
    )


def _deleted_positions(io: FileIO, files: Mapping[str, LiveFile]) -> dict[str, NDArray[np.int64]]:
    """Return the deleted positions of every file."""
    no_positions = np.empty(0, dtype=np.int64)
    deleted = read_deleted_positions(io, {path: file for path, file in files.items() if file.deleted_rows})
    return {path: distinct(deleted.get(path, no_positions)) for path in files}


def combine_ranges(ranges: list[ComparedRange]) -> ComparedRange:
    """Return the sum of the results of all key ranges."""
    counts: dict[FindingKind, int] = {}
    locations: dict[FindingKind, tuple[DifferenceLocation, ...]] = {}
    for key_range in ranges:
        for kind, count in key_range.counts.items():
            counts[kind] = counts.get(kind, 0) + count
            locations[kind] = (*locations.get(kind, ()), *key_range.locations[kind])[:MAX_LOCATIONS]
    return ComparedRange(
        counts,
        locations,
        rows=sum(key_range.rows for key_range in ranges),
        events=sum(key_range.events for key_range in ranges),
        entries=sum(key_range.entries for key_range in ranges),
    )
