"""Mistakes in index merges, in indexing foreign writes, and in rebuilding segments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spark_job import pipeline
from spark_job.changelog import history
from spark_job.commit import commit_slice
from spark_job.index import merge_segments
from spark_job.index.root import Root
from spark_job.maintenance import index_foreign_writes, rebuild_segments, repair_index
from tests.sim.engine.planting import plant

# Index merges


@plant((merge_segments, "_newest"))
def tombstones_dropped_in_an_index_merge(newest: Any) -> Any:
    def wrong(parts: Any) -> Any:
        kept, places = newest(parts)
        live = kept.file >= 0
        return merge_segments._take(kept, live), places[live]

    return wrong


@plant((merge_segments, "_newest"))
def oldest_wins_in_an_index_merge(newest: Any) -> Any:
    return lambda parts: newest(parts[::-1])


@plant((pipeline, "apply_index_merge"))
def trimmed_range_off_by_one(apply: Any) -> Any:
    def wrong(segments: Any, *arguments: Any) -> Any:
        before = {one.path: one.first_key for one in segments}
        merged = apply(segments, *arguments)
        cut = [
            one.model_copy(update={"first_key": min(one.first_key + 1, one.last_key)})
            if before.get(one.path, one.first_key) != one.first_key
            else one
            for one in merged.segments
        ]
        return replace(merged, segments=tuple(cut))

    return wrong


@plant((pipeline, "apply_index_merge"))
def merged_segments_put_last(apply: Any) -> Any:
    def wrong(segments: Any, *arguments: Any) -> Any:
        merged = apply(segments, *arguments)
        known = {one.path for one in segments}
        new = [one for one in merged.segments if one.path not in known]
        return replace(merged, segments=(*(one for one in merged.segments if one.path in known), *new))

    return wrong


@plant((merge_segments, "_to_root_ordinals"))
def index_merge_keeps_ordinals_of_the_segment(_to_root_ordinals: Any) -> Any:
    return lambda _segment, entries, _gone: entries


@plant((commit_slice, "drop_unreferenced_files"))
def ordinals_not_moved_when_files_are_forgotten(_forget: Any) -> Any:
    def wrong(root: Root) -> Root:
        named = {ordinal for one in root.segments for ordinal in one.files}
        kept = [file for at, file in enumerate(root.files) if not file.removed or at in named]
        return root.model_copy(update={"files": tuple(kept)})

    return wrong


# Foreign writes


@plant((index_foreign_writes, "foreign_files"))
def foreign_deletes_not_indexed(foreign_files: Any) -> Any:
    return lambda *arguments: tuple(file for file in foreign_files(*arguments) if file.added)


@plant((index_foreign_writes, "newest_order_in_index"))
def foreign_rows_have_order_zero(_greatest: Any) -> Any:
    return lambda _root, parts: (0,) * parts


@plant((index_foreign_writes, "look_up_keys"))
def moved_rows_become_the_newest(look_up: Any) -> Any:
    def wrong(index: Any, keys: Any, otherwise: Any) -> Any:
        known = look_up(index, keys, otherwise)
        return replace(known, orders=np.tile(np.array(otherwise, np.uint64), (len(keys), 1)))

    return wrong


@plant((index_foreign_writes, "compare_files"))
def files_removed_by_another_writer_not_noticed(compare: Any) -> Any:
    return lambda *arguments: replace(compare(*arguments), removed=frozenset())


# Rebuilt segments


@plant((rebuild_segments.RebuildSegmentWork, "_keys_without_live_row"))
def tombstones_not_rebuilt(without_row: Any) -> Any:
    return lambda _self, keys, _dead: keys.take(np.arange(0))


@plant((rebuild_segments.RebuildSegmentWork, "_keys_without_live_row"))
def foreign_rows_buried_by_an_index_rebuild(_without_row: Any) -> Any:
    return lambda _self, keys, _dead: keys


@plant((rebuild_segments.RebuildSegmentWork, "_orders"))
def rebuilt_entries_have_order_zero(orders: Any) -> Any:
    return lambda *arguments: np.zeros_like(orders(*arguments))


@plant((pipeline, "merged_files"), (repair_index, "merged_files"))
def waiting_events_used_in_an_index_rebuild(_files: Any) -> Any:
    def wrong(planned: Any) -> Any:
        line = history.whole_history(planned.changelog, "")
        files = history.added_files(planned.changelog.io, "", line)
        return [file for one in line.snapshots for file in files.get(one.snapshot_id, ())]

    return wrong


@plant((rebuild_segments.SegmentRebuilder, "rebuild"))
def damaged_segment_dropped(_rebuild: Any) -> Any:
    def wrong(_self: Any, mirrored: Any, damaged: Any) -> Any:
        root = mirrored.root
        if root is None or not damaged:
            return _rebuild(_self, mirrored, damaged)
        kept = tuple(one for one in root.segments if one.path not in damaged)
        return replace(mirrored, root=root.model_copy(update={"segments": kept})), ()

    return wrong


@plant((rebuild_segments, "newest_order_in_index"), (rebuild_segments, "newest_order"))
def foreign_rows_have_order_zero_after_an_index_rebuild(_greatest: Any) -> Any:
    return lambda *_arguments: (0, 0, 0)


@plant((commit_slice, "_superseded_segments"))
def segment_merged_in_its_own_commit_left_behind(_passing: Any) -> Any:
    return lambda *_arguments: []
