"""Writes the index segment of a shard: the new location or the tombstone of each changed key."""

from __future__ import annotations

import numpy as np

from spark_job.changelog.event_batch import EventBatch
from spark_job.columns.arrays import U64
from spark_job.index.location import new_segment_path
from spark_job.index.segment import TOMBSTONE, Entries, SegmentInfo
from spark_job.index.write_segment import write_segment
from spark_job.merge.effects import EventEffects
from spark_job.merge.slice_work import SliceWork
from spark_job.write.data_files import WrittenRows


def index_changes(
    work: SliceWork,
    changes: EventBatch,
    orders: U64,
    effects: EventEffects,
    written: WrittenRows,
    paths: list[str],
) -> SegmentInfo | None:
    """Write a segment with the new location or the tombstone of each changed key; return None if no key changed.

    Adds the segment to `paths` before it is written.
    """
    is_changed = effects.writes | effects.tombstones
    if not is_changed.any():
        return None
    file = np.full(len(changes), TOMBSTONE, dtype=np.int32)
    pos = np.zeros(len(changes), dtype=np.int64)
    file[effects.writes] = written.file
    pos[effects.writes] = written.pos
    entries = Entries(changes.keys.take(is_changed), file[is_changed], pos[is_changed], orders[is_changed])
    data_paths = [data_file.file_path for data_file in written.files]
    path = new_segment_path(work.index_location)
    paths.append(path)
    return write_segment(
        work.mirror_io, path, entries, work.shape.key_definition, data_paths, tuple(range(len(data_paths)))
    )
