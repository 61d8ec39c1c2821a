"""Mistakes in merging the index, in catching up with other writers, and in rebuilding what is damaged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spark_job import commit_slice, merge_slice
from spark_job.changelog import lineage
from spark_job.index_upkeep import catch_up, heal
from spark_job.key_index import compaction
from spark_job.key_index.root import Root
from spark_job.planning import stock
from tests.sim.engine.planting import plant

# Index merges


@plant((compaction, "_newest"))
def tombstones_dropped_in_an_index_merge(newest: Any) -> Any:
    def wrong(parts: Any) -> Any:
        kept, places = newest(parts)
        live = kept.file >= 0
        return compaction._take(kept, live), places[live]

    return wrong


@plant((compaction, "_newest"))
def oldest_wins_in_an_index_merge(newest: Any) -> Any:
    return lambda parts: newest(parts[::-1])


@plant((merge_slice, "apply_merge"))
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


@plant((merge_slice, "apply_merge"))
def merged_segments_put_last(apply: Any) -> Any:
    def wrong(segments: Any, *arguments: Any) -> Any:
        merged = apply(segments, *arguments)
        known = {one.path for one in segments}
        new = [one for one in merged.segments if one.path not in known]
        return replace(merged, segments=(*(one for one in merged.segments if one.path in known), *new))

    return wrong


@plant((compaction, "_on_root"))
def index_merge_keeps_ordinals_of_the_segment(_on_root: Any) -> Any:
    return lambda _segment, entries, _gone: entries


@plant((commit_slice, "forget_files"))
def ordinals_not_moved_when_files_are_forgotten(_forget: Any) -> Any:
    def wrong(root: Root) -> Root:
        named = {ordinal for one in root.segments for ordinal in one.files}
        kept = [file for at, file in enumerate(root.files) if not file.gone or at in named]
        return root.model_copy(update={"files": tuple(kept)})

    return wrong


# Other writers


@plant((catch_up, "foreign_files"))
def deleted_rows_not_caught_up_with(foreign_files: Any) -> Any:
    return lambda *arguments: tuple(file for file in foreign_files(*arguments) if file.came)


@plant((catch_up, "greatest_order"))
def rows_of_others_have_order_zero(_greatest: Any) -> Any:
    return lambda _root, parts: (0,) * parts


@plant((catch_up, "look_up"))
def compacted_rows_become_the_newest(look_up: Any) -> Any:
    def wrong(index: Any, keys: Any, otherwise: Any) -> Any:
        known = look_up(index, keys, otherwise)
        return replace(known, orders=np.tile(np.array(otherwise, np.uint64), (len(keys), 1)))

    return wrong


@plant((catch_up, "compare"))
def files_that_others_removed_not_noticed(compare: Any) -> Any:
    return lambda *arguments: replace(compare(*arguments), gone=frozenset())


# Damage


@plant((heal.HealWork, "_without_row"))
def tombstones_not_rebuilt(without_row: Any) -> Any:
    return lambda _self, keys, _dead: keys.take(np.arange(0))


@plant((heal.HealWork, "_without_row"))
def rows_of_others_buried_by_a_rebuild(_without_row: Any) -> Any:
    return lambda _self, keys, _dead: keys


@plant((heal.HealWork, "_orders"))
def rebuilt_entries_have_order_zero(orders: Any) -> Any:
    return lambda *arguments: np.zeros_like(orders(*arguments))


@plant((stock.Prepared, "merged_files"))
def events_not_merged_yet_used_in_a_rebuild(_files: Any) -> Any:
    def wrong(self: Any) -> Any:
        history = lineage.history_since(self.changelog, "", None)
        files = lineage.added_files(self.changelog.io, "", history)
        return [file for one in history.snapshots for file in files.get(one.snapshot_id, ())]

    return wrong


@plant((heal.Healer, "heal"))
def damaged_segment_dropped(_heal: Any) -> Any:
    def wrong(_self: Any, mirrored: Any, damaged: Any) -> Any:
        root = mirrored.root
        if root is None or not damaged:
            return _heal(_self, mirrored, damaged)
        kept = tuple(one for one in root.segments if one.path not in damaged)
        return replace(mirrored, root=root.model_copy(update={"segments": kept})), ()

    return wrong


@plant((heal, "greatest_order"), (heal, "newest_order"))
def rows_of_others_have_order_zero_once_all_is_rebuilt(_greatest: Any) -> Any:
    return lambda *_arguments: (0, 0, 0)


@plant((commit_slice, "_passing"))
def segment_that_was_merged_away_at_once_left_behind(_passing: Any) -> Any:
    return lambda *_arguments: []
