"""The input of a task that merges a slice, or a shard of it. Nothing here depends on Spark.

A small slice is one shard, in the job's process or in one Spark task. A large slice has one shard per key range.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.event_batch import EventBatch, concat_events, event_orders
from spark_job.changelog.rejected_rows import read_events_with_rejects
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.arrays import U64
from spark_job.columns.field_map import FieldMap
from spark_job.iceberg.mirror import Mirror
from spark_job.index.key_codec import KeyCodec
from spark_job.merge.indexed_files import MirrorRowFile, find_first_row_ids, find_indexed_files
from spark_job.merge.key_check import KeySources
from spark_job.merge.locate import SearchableIndex
from spark_job.merge.metadata_columns import MetadataValues, find_replaced_mirror
from spark_job.merge.shard_result import ShardOutcome
from spark_job.plan.slices import Slice
from spark_job.plan.table_plan import TablePlan
from spark_job.write.partition_sampler import PartitionSampler

_SNAPSHOT_FIELDS = ("snapshots", "snapshot_log", "metadata_log", "statistics", "partition_statistics")


@dataclass(frozen=True)
class SliceWork(ABC):
    """A slice, and the state of the mirror that it is merged into; sent to the tasks. Subclasses merge it.

    Implements `engine.work.Work`, for which the engine needs `shared_files`, `codec`, `key_source` and `output_io`.
    """

    changelog_io: FileIO
    mirror_io: FileIO
    files: tuple[ChangelogFile, ...]
    shape: ChangelogShape
    field_map: FieldMap
    metadata: TableMetadata
    index: SearchableIndex
    indexed_paths: tuple[str, ...]
    index_location: str
    key_check_rows: int | None
    newest_expired_tombstone_order: tuple[int, ...] | None = None
    history: tuple[ChangelogFile, ...] | None = None  # the changelog before this slice, if it is needed
    is_replay: bool = False
    first_row_ids: tuple[int | None, ...] | None = None  # of the indexed files; None below format v3
    # Filled only if rows may keep values of the rows that they replace.
    indexed_files: tuple[MirrorRowFile, ...] = ()
    metadata_values: MetadataValues | None = None  # of the columns that only the mirror has

    @property
    def shared_files(self) -> tuple[ChangelogFile, ...]:
        """The changelog before this slice, if it is needed."""
        return self.history or ()

    @property
    def codec(self) -> KeyCodec:
        """The encoding of keys."""
        return self.shape.key_codec

    def key_source(self, file: object) -> tuple[FileIO, tuple[int, ...]]:
        """Return the changelog's storage, and the field ids of its key."""
        return self.changelog_io, self.shape.key_ids

    @property
    def output_io(self) -> FileIO:
        """The mirror's storage."""
        return self.mirror_io

    def read(self, ordinals: range) -> EventBatch:
        """Return the events to merge of some files, those of each file followed by its markers."""
        return concat_events(
            [
                read_events_with_rejects(self.changelog_io, self.files[ordinal], ordinal, self.shape)
                for ordinal in ordinals
            ]
        )

    def limit_shards(self, shards: int) -> int:
        """Return `shards`, or fewer if each would write many small files."""
        return self.partition_sampler.limit_shards(shards)

    @property
    def partition_sampler(self) -> PartitionSampler:
        """Reads to which partitions of the mirror the rows belong."""
        return PartitionSampler(self.changelog_io, self.files, self.shape, self.field_map, self.metadata)

    @property
    def key_sources(self) -> KeySources:
        """Where to read the keys of the events, and of the mirror's rows."""
        mirror_key_ids = tuple(self.field_map[key_id] for key_id in self.shape.key_ids)
        return KeySources(
            self.changelog_io, self.files, self.shape, self.mirror_io, self.indexed_paths, mirror_key_ids
        )

    @abstractmethod
    def run_shard(self, read: Callable[[], EventBatch]) -> ShardOutcome:
        """Merge the events that `read` returns. Deletes its files if it fails."""

    def orders(self, changes: EventBatch) -> U64:
        """Return the order of each change: sequence and changelog snapshot."""
        return event_orders(changes, self.files)


WorkClass = TypeVar("WorkClass", bound=SliceWork)


def prepare_work(
    work_class: type[WorkClass],
    table_plan: TablePlan,
    mirror: Mirror,
    slice_: Slice,
    index_location: str,
    key_check_rows: int | None,
) -> WorkClass:
    """Return what the tasks need to merge a slice into a mirror whose index is complete."""
    root, metadata = mirror.root, mirror.table.metadata
    evolution = table_plan.evolution if slice_.files else None
    if evolution is not None:
        metadata = evolution.apply_to(metadata)
    metadata_values = None
    if evolution is not None and evolution.metadata_columns:
        replaced = find_replaced_mirror(
            table_plan.replaced_mirror, table_plan.changelog, table_plan.shape.applied_truncation
        )
        metadata_values = MetadataValues(evolution.metadata_columns, int(1e6 * time.time()), replaced)
    return work_class(
        changelog_io=table_plan.changelog.io,
        mirror_io=mirror.table.io,
        files=slice_.files,
        shape=table_plan.shape.with_mirror_salt(mirror.table.metadata.table_uuid),
        field_map=evolution.field_map if evolution else mirror.field_map,
        metadata=strip_snapshots(metadata),
        index=SearchableIndex(mirror.table.io, root.segments, root.removed_ordinals)
        if root
        else SearchableIndex(mirror.table.io),
        indexed_paths=tuple(file.path for file in root.files) if root else (),
        index_location=index_location,
        newest_expired_tombstone_order=root.newest_expired_tombstone_order if root else None,
        key_check_rows=key_check_rows,
        first_row_ids=None if table_plan.is_stage else find_first_row_ids(mirror, metadata.schema()),
        indexed_files=find_indexed_files(mirror, metadata, table_plan.is_stage)
        if table_plan.shape.keeps_values
        else (),
        metadata_values=metadata_values,
    )


def strip_snapshots(metadata: TableMetadata) -> TableMetadata:
    """Return the metadata without snapshots, which are most of it and which tasks do not need."""
    lists: dict[str, list[object]] = {name: [] for name in _SNAPSHOT_FIELDS}
    return metadata.model_copy(update={**lists, "refs": {}, "current_snapshot_id": None})
