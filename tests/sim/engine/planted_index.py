"""Defects in index merges, in indexing foreign writes, and in rebuilding segments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spark_job import pipeline
from spark_job.changelog import added_files, history
from spark_job.commit import commit_slice, next_root
from spark_job.index import merge_segments
from spark_job.index.root import Root
from spark_job.maintenance import index_foreign_writes, rebuild_segments, repair_index
from spark_job.maintenance.rebuild_segment_work import RebuildSegmentWork
from tests.sim.engine.planting import plant

# Index merges


@plant((merge_segments, "_keep_newest"))
def tombstones_dropped_in_an_index_merge(newest: Any) -> Any:
    def defective(parts: Any) -> Any:
        kept, positions = newest(parts)
        live = kept.file >= 0
        return kept.take(live), positions[live]

    return defective


@plant((merge_segments, "_keep_newest"))
def oldest_wins_in_an_index_merge(newest: Any) -> Any:
    return lambda parts: newest(parts[::-1])


@plant((pipeline, "apply_index_merge"))
def trimmed_range_off_by_one(apply: Any) -> Any:
    def defective(segments: Any, *arguments: Any) -> Any:
        before = {segment.path: segment.first_key for segment in segments}
        merged = apply(segments, *arguments)
        cut = [
            segment.model_copy(update={"first_key": min(segment.first_key + 1, segment.last_key)})
            if before.get(segment.path, segment.first_key) != segment.first_key
            else segment
            for segment in merged.segments
        ]
        return replace(merged, segments=tuple(cut))

    return defective


@plant((pipeline, "apply_index_merge"))
def merged_segments_put_last(apply: Any) -> Any:
    def defective(segments: Any, *arguments: Any) -> Any:
        merged = apply(segments, *arguments)
        known = {segment.path for segment in segments}
        new = [segment for segment in merged.segments if segment.path not in known]
        kept = [segment for segment in merged.segments if segment.path in known]
        return replace(merged, segments=(*kept, *new))

    return defective


@plant((merge_segments, "_to_root_ordinals"))
def index_merge_keeps_ordinals_of_the_segment(_to_root_ordinals: Any) -> Any:
    return lambda _segment, entries, _removed: entries


@plant((next_root, "drop_unreferenced_files"))
def ordinals_not_moved_when_files_are_forgotten(_drop: Any) -> Any:
    def defective(root: Root) -> Root:
        referenced = {ordinal for segment in root.segments for ordinal in segment.files}
        kept = [file for at, file in enumerate(root.files) if not file.removed or at in referenced]
        return root.model_copy(update={"files": tuple(kept)})

    return defective


# Foreign writes


@plant((index_foreign_writes, "list_foreign_files"))
def foreign_deletes_not_indexed(foreign_files: Any) -> Any:
    return lambda *arguments: tuple(file for file in foreign_files(*arguments) if file.added)


@plant((index_foreign_writes, "newest_order_in_index"))
def foreign_rows_have_order_zero(_newest: Any) -> Any:
    return lambda _root, parts: (0,) * parts


@plant((index_foreign_writes, "read_key_entries"))
def moved_rows_become_the_newest(look_up: Any) -> Any:
    def defective(index: Any, keys: Any, otherwise: Any) -> Any:
        known = look_up(index, keys, otherwise)
        return replace(known, orders=np.tile(np.array(otherwise, np.uint64), (len(keys), 1)))

    return defective


@plant((index_foreign_writes, "compare_files"))
def files_removed_by_another_writer_not_noticed(compare: Any) -> Any:
    return lambda *arguments: replace(compare(*arguments), removed=frozenset())


# Rebuilt segments


@plant((RebuildSegmentWork, "_keys_without_live_row"))
def tombstones_not_rebuilt(_without_row: Any) -> Any:
    return lambda _self, keys, _dead: keys.take(np.arange(0))


@plant((RebuildSegmentWork, "_keys_without_live_row"))
def foreign_rows_buried_by_an_index_rebuild(_without_row: Any) -> Any:
    return lambda _self, keys, _dead: keys


@plant((RebuildSegmentWork, "_orders"))
def rebuilt_entries_have_order_zero(orders: Any) -> Any:
    return lambda *arguments: np.zeros_like(orders(*arguments))


@plant((pipeline, "merged_files"), (repair_index, "merged_files"))
def waiting_events_used_in_an_index_rebuild(_files: Any) -> Any:
    def defective(planned: Any) -> Any:
        line = history.whole_history(planned.changelog, "")
        files = added_files.added_files(planned.changelog.io, "", line)
        return [file for snapshot in line.snapshots for file in files.get(snapshot.snapshot_id, ())]

    return defective


@plant((rebuild_segments.SegmentRebuilder, "rebuild"))
def damaged_segment_dropped(_rebuild: Any) -> Any:
    def defective(_self: Any, mirrored: Any, damaged: Any) -> Any:
        root = mirrored.root
        if root is None or not damaged:
            return _rebuild(_self, mirrored, damaged)
        kept = tuple(segment for segment in root.segments if segment.path not in damaged)
        return replace(mirrored, root=root.model_copy(update={"segments": kept})), ()

    return defective


@plant((rebuild_segments, "newest_order_in_index"), (rebuild_segments, "newest_order"))
def foreign_rows_have_order_zero_after_an_index_rebuild(_newest: Any) -> Any:
    return lambda *_arguments: (0, 0, 0)


@plant((commit_slice, "_superseded_segments"))
def segment_merged_in_its_own_commit_left_behind(_superseded: Any) -> Any:
    return lambda *_arguments: []
