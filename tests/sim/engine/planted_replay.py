"""Defects in replays and rebuilds."""

from __future__ import annotations

from typing import Any

from icemirror.tables.cursor import Cursor, CursorSource
from spark_job import pipeline
from spark_job.commit import swap_snapshot
from spark_job.iceberg import references
from spark_job.iceberg.manifests import load_manifests
from spark_job.index.root import Root
from spark_job.rebuild import rebuild, replay, swap_stage
from tests.sim.engine.planting import PLANTED, PlantedDefect, instead, plant

_before = frozenset(PLANTED)

# Replays


@plant((pipeline, "decide_effects"))
def replay_applies_ties(decide: Any) -> Any:
    def defective(changes: Any, located: Any, is_replay: bool) -> Any:
        return decide(changes, located, is_replay=False)

    return defective


@plant((replay, "Slice"))
def replay_moves_the_cursor_back(_slice: Any) -> Any:
    def defective(files: Any, cursor: Cursor) -> Any:
        source = cursor.source
        first = CursorSource(
            uuid=source.uuid, snapshot_id=files[0].snapshot_id, sequence_number=files[0].sequence_number
        )
        earlier = min(source, first, key=lambda position: position.sequence_number)
        return _slice(files, Cursor(sources=(earlier,)))

    return defective


@plant((replay, "find_replay_range"))
def replay_merges_waiting_events(find: Any) -> Any:
    return lambda changelog, name, request, _waiting: find(changelog, name, request, set())


# Rebuilds


@plant((swap_snapshot.Swap, "_prepare"))
def rebuild_swaps_without_a_fence(prepare: Any) -> Any:
    def defective(self: Any) -> Any:
        object.__setattr__(self, "table", self.table.catalog.load_table(self.table.name()))
        object.__setattr__(self, "head", self.table.current_snapshot())
        updates, (uuid, _fence) = prepare(self)
        return updates, (uuid,)

    return defective


@plant((swap_stage, "commit_snapshot"))
def rebuild_keeps_the_old_index(commit: Any) -> Any:
    def defective(swap: Any, root: Root, *arguments: Any, **options: Any) -> Any:
        older = _known_roots[-1] if _known_roots else root
        kept = older.model_copy(update={"snapshot_id": root.snapshot_id, "epoch": root.epoch})
        return commit(swap, kept, *arguments, **options)

    return defective


_known_roots: list[Root] = []


def _recording_roots(read: Any) -> Any:
    def recording(*arguments: Any) -> Any:
        mirror = read(*arguments)
        _known_roots[:] = [mirror.root] if mirror is not None and mirror.root is not None else []
        return mirror

    return recording


PLANTED["rebuild keeps the old index"] = PlantedDefect(
    (*PLANTED["rebuild keeps the old index"].changes, (rebuild, "_read_replaced_mirror", _recording_roots))
)


@plant((rebuild, "is_stage_behind"))
def rebuild_swaps_although_it_lags(_behind: Any) -> Any:
    return lambda _pipeline, _current, staged, _stage: staged.mirror.cursor is None and bool(staged.slices)


@plant((rebuild, "is_stage_behind"))
def rebuild_trusts_a_stale_changelog(behind: Any) -> Any:
    """Treats a stale read without waiting events as the whole changelog."""

    def defective(pipeline: Any, current: Any, staged: Any, stage: Any) -> Any:
        has_slices = any(part.files for part in staged.slices)
        return has_slices and behind(pipeline, current, staged, stage)

    return defective


PLANTED["rebuild is swapped in twice"] = PlantedDefect(((rebuild, "_is_swapped_in", instead(False)),))
PLANTED["epoch not raised by a rebuild"] = PlantedDefect(((swap_stage, "last_epoch", instead(0)),))


@plant((swap_snapshot.Swap, "_remove_all"))
def rebuild_leaves_the_old_rows(_remove_all: Any) -> Any:
    return lambda self: (list(load_manifests(self.table.io, self.head)), ())


@plant((swap_stage, "superseded_stage_files"))
def rebuild_deletes_files_that_it_needs(_find: Any) -> Any:
    return lambda io, stage, _root: references.find_referenced_files(io, stage.table.metadata)


@plant((swap_stage, "superseded_stage_files"))
def files_of_a_rebuild_left_behind(_find: Any) -> Any:
    return lambda *_arguments: set()


@plant((rebuild, "save_stage"))
def stage_forgets_its_last_slice(save: Any) -> Any:
    def defective(self: Any, location: str, events: int) -> Any:
        kept = self.catalog.metadata
        if len(kept.snapshots) > 1:
            last, before = kept.snapshots[-1], kept.snapshots[-2]
            refs = {"main": kept.refs["main"].model_copy(update={"snapshot_id": before.snapshot_id})}
            stale = before.summary.additional_properties
            summary = {
                **stale,
                "icemirror.cursor": last.summary.additional_properties["icemirror.cursor"],
            }
            forged = before.model_copy(
                update={"summary": type(before.summary)(before.summary.operation, **summary)}
            )
            update = {"snapshots": [*kept.snapshots[:-2], forged], "refs": refs}
            self.catalog.metadata = kept.model_copy(
                update={**update, "current_snapshot_id": before.snapshot_id}
            )
        return save(self, location, events)

    return defective


@plant((swap_stage, "commit_snapshot"))
def old_cursor_kept_by_a_rebuild(commit: Any) -> Any:
    """Swaps with the cursor of the mirror instead of that of the stage."""

    def defective(swap: Any, root: Any, cursor: Cursor, *arguments: Any, **options: Any) -> Any:
        head = swap.table.current_snapshot().summary
        text = head.additional_properties.get("icemirror.cursor") if head else None
        kept = Cursor.model_validate_json(text) if text else cursor
        return commit(swap, root, kept if kept.sources else cursor, *arguments, **options)

    return defective


NAMES = frozenset(PLANTED) - _before
