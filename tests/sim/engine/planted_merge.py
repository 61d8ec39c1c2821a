"""Defects in planning, collapsing, locating, writing and committing."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from icemirror.errors import CommitUnknown, Conflict
from spark_job import pipeline
from spark_job.changelog import added_files, history, read_events
from spark_job.commit import commit_slice, row_delta
from spark_job.engine import engine
from spark_job.iceberg import cursor_property, mirror
from spark_job.iceberg.live_files import live_files
from spark_job.iceberg.property_names import PROPERTY_INDEX_ROOT
from spark_job.index import orders
from spark_job.index.root import Root
from spark_job.merge import collapse, locate, slice_work, write_winners
from spark_job.merge.locate import ABSENT
from spark_job.plan import backlog, row_columns
from spark_job.plan.plans import PlanOutcome
from spark_job.storage.discard import discard
from spark_job.write import plan_deletes, write_vectors
from tests.sim.engine.planting import PLANTED, PlantedDefect, instead, plant

# Commit


@plant((row_delta.RowDelta, "_prepare"))
def fence_off(prepare: Any) -> Any:
    def defective(self: Any) -> Any:
        object.__setattr__(self, "table", self.table.catalog.load_table(self.table.name()))
        updates, (uuid, _fence) = prepare(self)
        return updates, (uuid,)

    return defective


@plant((row_delta.RowDelta, "_load_after"))
def unknown_outcome_treated_as_a_failure(_load: Any) -> Any:
    def defective(self: Any, error: Exception) -> None:
        raise Conflict("assumed to have failed") from error

    return defective


@plant((pipeline, "commit_slice"))
def commit_retried_without_checking_its_outcome(commit: Any) -> Any:
    def defective(uncommitted: Any, *arguments: Any) -> Any:
        try:
            return commit(uncommitted, *arguments)
        except CommitUnknown:
            mirrored = uncommitted.mirror
            table = mirrored.table.catalog.load_table(mirrored.table.name())
            current = replace(mirrored, table=table, head=table.current_snapshot())
            return commit(replace(uncommitted, mirror=current), *arguments)

    return defective


@plant((pipeline, "commit_slice"))
def cursor_not_moved(commit: Any) -> Any:
    def defective(uncommitted: Any, *arguments: Any) -> Any:
        cursor = uncommitted.mirror.cursor or uncommitted.slice.cursor
        return commit(replace(uncommitted, slice=replace(uncommitted.slice, cursor=cursor)), *arguments)

    return defective


@plant((pipeline, "commit_slice"))
def files_discarded_after_success(commit: Any) -> Any:
    def defective(uncommitted: Any, *arguments: Any) -> Any:
        outcome = commit(uncommitted, *arguments)
        discard(uncommitted.mirror.table.io, [path for shard in uncommitted.shards for path in shard.paths])
        return outcome

    return defective


@plant((commit_slice, "discard_unless_committed"))
def files_of_a_lost_race_left_behind(_discard: Any) -> Any:
    return lambda _io, paths: nullcontext(list(paths))


@plant((pipeline.Pipeline, "merge_slice"))
def slice_merged_twice(merge: Any) -> Any:
    def defective(self: Any, plan: Any, *arguments: Any) -> Any:
        done, planned = merge(self, plan, *arguments), plan.table_plan
        if isinstance(done, PlanOutcome) and done.merged is not None:
            current = mirror.read_mirror(
                self.catalogs.load_mirror(planned.table_settings), planned.table_settings.name
            )
            merge(self, replace(plan, table_plan=replace(planned, mirror=current)), *arguments)
        return done

    return defective


@plant(
    (mirror, "read_cursor_property"),
    (cursor_property, "read_cursor_property"),
    name="epoch not raised after a rollback",
)
def _no_anchor_epoch(read: Any) -> Any:
    def defective(properties: Any) -> Any:
        anchor = read(properties)
        return anchor.model_copy(update={"epoch": 0}) if anchor else None

    return defective


@plant((mirror, "_find_indexed_snapshot"))
def cursor_read_from_the_property(find: Any) -> Any:
    def defective(table: Any, name: str, head: Any, anchor: Any) -> Any:
        if anchor is None:
            return find(table, name, head, anchor)
        root = table.metadata.properties[PROPERTY_INDEX_ROOT]
        return mirror._IndexedSnapshot(anchor.snapshot_id, anchor.cursor, anchor.epoch, root)

    return defective


class _AnyRoot:
    """Reads the root named by the property as if it belonged to the snapshot."""

    snapshot_id = 0

    def find(self, find: Any) -> Any:
        def defective(table: Any, *arguments: Any) -> Any:
            snapshot = find(table, *arguments)
            self.snapshot_id = snapshot.snapshot_id
            return replace(snapshot, root_path=table.metadata.properties[PROPERTY_INDEX_ROOT])

        return defective

    def read(self, read: Any) -> Any:
        def defective(io: Any, path: str) -> Root:
            root: Root = read(io, path)
            return root.model_copy(update={"snapshot_id": self.snapshot_id})

        return defective


_any_root = _AnyRoot()
PLANTED["root of another snapshot accepted"] = PlantedDefect(
    ((mirror, "_find_indexed_snapshot", _any_root.find), (mirror, "read_root", _any_root.read))
)


@plant((commit_slice, "choose_empty_files"))
def empty_files_kept(_choose: Any) -> Any:
    return lambda *_files, **_options: {}


@plant((commit_slice, "choose_empty_files"))
def file_with_one_live_row_removed(choose: Any) -> Any:
    def defective(deleted: Any, live: Any, *, adds_rows: bool) -> Any:
        almost = {path: replace(file, rows=file.rows - 1) for path, file in live.items() if file.rows > 1}
        return {**choose(deleted, live, adds_rows=adds_rows), **choose(deleted, almost, adds_rows=adds_rows)}

    return defective


PLANTED["next sequence number taken for a descendant"] = PlantedDefect(
    ((cursor_property, "has_files_of_commit", instead(True)),)
)


# Plan

PLANTED["history accepted that does not reach the cursor"] = PlantedDefect(
    ((history, "_follows_cursor", instead(True)),)
)


@plant((backlog, "plan_slices"))
def files_done_ignored(plan: Any) -> Any:
    return lambda uuid, snapshots, _done, *rest: plan(uuid, snapshots, 0, *rest)


@plant((added_files, "_is_append"))
def changelog_compaction_merged_again(_is_append: Any) -> Any:
    return lambda snapshot: True


@plant((engine, "cut_by_key"))
def last_shard_forgotten(cut: Any) -> Any:
    return lambda changes, bounds: cut(changes, bounds)[: max(1, len(bounds))]


# Collapse and decide


@plant((pipeline, "decide_effects"))
def events_of_equal_order_treated_as_stale(decide: Any) -> Any:
    return lambda changes, located, is_replay: decide(changes, located, is_replay=True)


@plant((pipeline, "decide_effects"))
def late_events_applied(decide: Any) -> Any:
    def defective(changes: Any, located: Any, is_replay: bool) -> Any:
        newer = np.ones_like(located.order_comparison)
        return decide(changes, replace(located, order_comparison=newer), is_replay=is_replay)

    return defective


@plant((pipeline, "decide_effects"))
def delete_of_an_absent_key_writes_no_tombstone(decide: Any) -> Any:
    def defective(changes: Any, located: Any, is_replay: bool) -> Any:
        effects = decide(changes, located, is_replay=is_replay)
        return replace(effects, tombstones=effects.tombstones & (located.file >= 0))

    return defective


@plant((pipeline, "collapse_changes"))
def ties_won_by_the_earlier_file(collapse_changes: Any) -> Any:
    return lambda changes: collapse_changes(changes.take(np.arange(len(changes))[::-1]))


@plant((collapse, "is_sorted"))
def last_event_of_a_file_wins(_is_sorted: Any) -> Any:
    return lambda _sequence: True


@plant((slice_work.SliceWork, "orders"))
def orders_without_the_commit(orders: Any) -> Any:
    def defective(self: Any, changes: Any) -> Any:
        found = orders(self, changes)
        found[:, -1] = 0
        return found

    return defective


# Locate


def _miss_some_keys(locate_keys: Any) -> Any:
    def defective(*arguments: Any) -> Any:
        located = locate_keys(*arguments)
        file = located.file.copy()
        file[::3] = ABSENT
        return replace(located, file=file)

    return defective


PLANTED["lookup misses rows, and counts are not checked"] = PlantedDefect(
    ((pipeline, "locate_keys", _miss_some_keys), (commit_slice, "check_live_row_counts", instead(None)))
)


@plant((locate, "_search_layers"))
def lookup_falls_through_tombstones(search: Any) -> Any:
    def defective(index: Any, keys: Any) -> Any:
        left = np.arange(len(keys))
        for segment in index.segments:
            for layer, found in search(replace(index, segments=(segment,)), keys.take(left)):
                picked = found.take(index.ordinals(layer, found) >= 0)
                yield layer, replace(picked, key_index=left[picked.key_index])
                left = np.delete(left, picked.key_index)

    return defective


@plant((orders, "greatest_order"))
def segment_records_its_least_order_as_greatest(_greatest: Any) -> Any:
    return lambda orders: min(tuple(map(int, row)) for row in orders)


def _few_bits(resolve: Any) -> Any:
    def defective(*arguments: Any) -> Any:
        shape = resolve(*arguments)
        return (
            shape
            if shape.key_codec.is_lossless
            else replace(shape, key_codec=replace(shape.key_codec, hash_bits=4))
        )

    return defective


FOUR_BITS = PlantedDefect(((row_columns, "resolve_shape", _few_bits),))
PLANTED["hash of four bits, and keys are not checked"] = PlantedDefect(
    (
        *FOUR_BITS.changes,
        (pipeline, "check_located_keys", instead(None)),
        (pipeline, "check_hash_collisions", instead(None)),
        (read_events, "refuse_collisions", instead(None)),
    )
)


# Write


@plant((commit_slice, "write_deletes"))
def position_deletes_off_by_one(write: Any) -> Any:
    def defective(io: Any, metadata: Any, positions: Any, live: Any, written: Any) -> Any:
        moved = {path: (np.sort((rows + 1) % live[path].rows)) for path, rows in positions.items()}
        return write(io, metadata, moved, live, written)

    return defective


@plant((commit_slice, "_removed_positions"))
def row_stays_in_its_old_partition(removed_positions: Any) -> Any:
    def defective(mirrored: Any, shards: Any) -> Any:
        new = {str(file.partition) for shard in shards for file in shard.data_files}
        live = live_files(mirrored.table.io, mirrored.head)
        found = removed_positions(mirrored, shards)
        return {path: rows for path, rows in found.items() if not new or str(live[path].partition) in new}

    return defective


@plant((write_vectors, "_merge_positions"))
def vector_without_the_earlier_one(_merge: Any) -> Any:
    return lambda _target, _earlier, positions: positions


@plant((plan_deletes, "replaced_deletes"))
def earlier_vector_kept_next_to_the_new_one(_replaced: Any) -> Any:
    return lambda *_arguments: []


@plant((write_winners, "write_rows"))
def indexed_position_off_by_one(write: Any) -> Any:
    def defective(*arguments: Any) -> Any:
        written = write(*arguments)
        return replace(written, pos=np.where(written.pos > 0, written.pos - 1, written.pos))

    return defective
