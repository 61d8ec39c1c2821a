"""The input of a task that merges a slice, or a shard of it. Nothing here depends on Spark.

A small slice is one shard, in the job's process or in one Spark task. A large slice has one shard per key range.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from spark_job.changelog.changes import Changes, concat_changes
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.rejected_rows import read_events_with_rejects
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.field_map import FieldMap
from spark_job.iceberg.mirror import Mirror
from spark_job.index.key_codec import KeyCodec
from spark_job.index.keys import U64
from spark_job.merge.indexed_files import first_row_ids, indexed_files
from spark_job.merge.key_check import KeySources
from spark_job.merge.locate import SearchableIndex
from spark_job.merge.metadata_columns import MetadataValues, ReplacedMirror
from spark_job.merge.shard_result import ShardOutcome
from spark_job.plan.slices import Slice
from spark_job.plan.table_plan import TablePlan
from spark_job.write.partition_spread import PartitionSpread

_HISTORY = ("snapshots", "snapshot_log", "metadata_log", "statistics", "partition_statistics")


@dataclass(frozen=True)
class SliceWork:
    """A slice, and the state of the mirror that it is merged into; sent to the tasks. Subclasses merge it."""

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
    newest_expired_order: tuple[int, ...] | None = None  # of a tombstone
    history: tuple[ChangelogFile, ...] | None = None  # the changelog before this slice, if it is needed
    is_replay: bool = False
    first_row_ids: tuple[int | None, ...] | None = None  # of the indexed files; None below format v3
    # The indexed files, if rows may keep values of the rows that they replace.
    mirror_files: tuple[ChangelogFile, ...] = ()
    metadata_values: MetadataValues | None = None  # of the columns that only the mirror has

    @property
    def shared_files(self) -> tuple[ChangelogFile, ...]:
        """The changelog before this slice, if it is needed."""
        return self.history or ()

    @property
    def codec(self) -> KeyCodec:
        """The encoding of keys."""
        return self.shape.codec

    def source(self, file: ChangelogFile) -> tuple[FileIO, tuple[int, ...]]:
        """Return the changelog's storage, and the field ids of its key."""
        return self.changelog_io, self.shape.key_ids

    @property
    def target(self) -> FileIO:
        """The mirror's storage."""
        return self.mirror_io

    def read(self, ordinals: range) -> Changes:
        """Return the events of some files; rejected events of a file come after the others."""
        return concat_changes(
            [
                read_events_with_rejects(self.changelog_io, self.files[ordinal], ordinal, self.shape)
                for ordinal in ordinals
            ]
        )

    def limit_shards(self, wanted: int) -> int:
        """Return `wanted`, or fewer shards where each would write many small files."""
        return self.spread.limit_shards(wanted)

    @property
    def spread(self) -> PartitionSpread:
        """How rows are distributed over the mirror's partitions."""
        return PartitionSpread(self.changelog_io, self.files, self.shape, self.field_map, self.metadata)

    @property
    def key_sources(self) -> KeySources:
        """Where to read the keys of the events, and of the mirror's rows."""
        mirror_ids = tuple(self.field_map[key_id] for key_id in self.shape.key_ids)
        return KeySources(
            self.changelog_io, self.files, self.shape, self.mirror_io, self.indexed_paths, mirror_ids
        )

    def merge(self, read: Callable[[], Changes]) -> ShardOutcome:
        """Merge the events that `read` returns. Deletes its files if it fails."""
        raise TypeError(f"{type(self).__name__} does not implement merge")

    def orders(self, changes: Changes) -> U64:
        """Return the order of each change: sequence and changelog snapshot."""
        snapshots = np.array([file.sequence_number for file in self.files], dtype=np.uint64)
        return np.column_stack([changes.sequence, snapshots[changes.file]])


WorkClass = TypeVar("WorkClass", bound=SliceWork)


def prepare_work(
    work_class: type[WorkClass],
    table_plan: TablePlan,
    mirror: Mirror,
    slice_: Slice,
    index_location: str,
    key_check_rows: int | None,
) -> WorkClass:
    """Return the work of merging a slice into a mirror whose index is complete."""
    root, metadata = mirror.root, mirror.table.metadata
    evolution = table_plan.evolution if slice_.files else None
    if evolution is not None:
        metadata = evolution.applied(metadata)
    metadata_values = None
    if evolution is not None and evolution.metadata_columns:
        replaced = ReplacedMirror.from_mirror(
            table_plan.replaces, table_plan.changelog, table_plan.shape.followed_truncation
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
        newest_expired_order=root.newest_expired_order if root else None,
        key_check_rows=key_check_rows,
        first_row_ids=None if table_plan.staged else first_row_ids(mirror, metadata.schema()),
        mirror_files=indexed_files(mirror, metadata, table_plan.staged)
        if table_plan.shape.keeps_values
        else (),
        metadata_values=metadata_values,
    )


def strip_snapshots(metadata: TableMetadata) -> TableMetadata:
    """Return the metadata without snapshots, which are most of it and which tasks do not need."""
    lists: dict[str, list[object]] = {name: [] for name in _HISTORY}
    return metadata.model_copy(update={**lists, "refs": {}, "current_snapshot_id": None})
