"""The index root that a slice commits. Pure but for the clock."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set

import numpy as np
from numpy.typing import NDArray

from spark_job.iceberg.mirror import Mirror
from spark_job.index.apply_index_merge import MergedIndex
from spark_job.index.root import IndexedFile, Root, drop_unreferenced_files
from spark_job.index.segment import SegmentInfo
from spark_job.merge.shard_result import ShardResult


def root_after_slice(
    mirror: Mirror,
    shards: Sequence[ShardResult],
    merged: MergedIndex,
    removed_positions: Mapping[str, NDArray[np.int64]],
    empty_paths: Set[str],
    snapshot_id: int,
) -> Root:
    """Return the root after this slice: new segments first, row counts updated, empty data files flagged as removed."""
    files = [
        _subtract_rows(file, len(removed_positions.get(file.path, ())), removed=file.path in empty_paths)
        if file.path in removed_positions or file.path in empty_paths
        else file
        for file in (mirror.root.files if mirror.root else ())
    ]
    segments: list[SegmentInfo] = []
    now_ms = int(time.time() * 1000)
    for shard in shards:
        ordinals = tuple(range(len(files), len(files) + len(shard.data_files)))
        files.extend(map(IndexedFile.for_new_file, shard.data_files))
        if shard.segment is not None:
            segment = shard.segment.with_sorted_run(merged.next_sorted_run, now_ms)
            segments.append(segment.model_copy(update={"files": ordinals}))
    root = Root(
        snapshot_id=snapshot_id,
        epoch=mirror.epoch + 1,
        segments=(*segments, *merged.segments),
        files=tuple(files),
        next_sorted_run=merged.next_sorted_run + 1,
        merging=merged.merging,
        newest_expired_tombstone_order=merged.newest_expired_tombstone_order,
    )
    return drop_unreferenced_files(root)


def _subtract_rows(file: IndexedFile, rows: int, *, removed: bool) -> IndexedFile:
    return file.model_copy(update={"live_rows": file.live_rows - rows, "removed": file.removed or removed})
