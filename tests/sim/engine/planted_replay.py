"""Mistakes in replays and rebuilds."""

from __future__ import annotations

from typing import Any

from icemirror.tables.cursor import Cursor, CursorSource
from spark_job import pipeline
from spark_job.commit import swap
from spark_job.iceberg import references
from spark_job.iceberg.manifests import load_manifests
from spark_job.index.root import Root
from spark_job.rebuild import rebuild, replay, swap_stage
from tests.sim.engine.planting import PLANTED, PlantedMistake, instead, plant

_before = frozenset(PLANTED)

# Replays


@plant((pipeline, "decide_effects"))
def replay_applies_ties(decide: Any) -> Any:
    def wrong(changes: Any, located: Any, is_replay: bool) -> Any:
        return decide(changes, located, is_replay=False)

    return wrong


@plant((replay, "Slice"))
def replay_moves_the_cursor_back(_slice: Any) -> Any:
    def wrong(files: Any, cursor: Cursor) -> Any:
        there = cursor.source
        first = CursorSource(
            uuid=there.uuid, snapshot_id=files[0].snapshot_id, sequence_number=files[0].sequence_number
        )
        back = min(there, first, key=lambda one: one.sequence_number)
        return _slice(files, Cursor(sources=(back,)))

    return wrong


@plant((replay, "find_replay_range"))
def replay_merges_waiting_events(find: Any) -> Any:
    return lambda changelog, name, request, _waiting: find(changelog, name, request, set())


# Rebuilds


@plant((swap.Swap, "_prepare"))
def rebuild_swaps_without_a_fence(prepare: Any) -> Any:
    def wrong(self: Any) -> Any:
        self.table = self.table.catalog.load_table(self.table.name())
        self.head = self.table.current_snapshot()
        updates, (uuid, _fence) = prepare(self)
        return updates, (uuid,)

    return wrong


@plant((swap_stage, "commit_with_root"))
def rebuild_keeps_the_old_index(commit: Any) -> Any:
    def wrong(swap: Any, root: Root, *given: Any, **named: Any) -> Any:
        older = _known_roots[-1] if _known_roots else root
        kept = older.model_copy(update={"snapshot_id": root.snapshot_id, "epoch": root.epoch})
        return commit(swap, kept, *given, **named)

    return wrong


_known_roots: list[Root] = []


def _noting_roots(read: Any) -> Any:
    def noting(*given: Any) -> Any:
        mirror = read(*given)
        _known_roots[:] = [mirror.root] if mirror is not None and mirror.root is not None else []
        return mirror

    return noting


PLANTED["rebuild keeps the old index"] = PlantedMistake(
    (*PLANTED["rebuild keeps the old index"].changes, (rebuild, "_read_current", _noting_roots))
)


@plant((rebuild, "_is_behind"))
def rebuild_swaps_although_it_lags(_behind: Any) -> Any:
    return lambda _pipeline, _current, staged, _stage: staged.mirror.cursor is None and bool(staged.slices)


@plant((rebuild, "_is_behind"))
def rebuild_trusts_a_stale_changelog(behind: Any) -> Any:
    """Takes a stale read without waiting events for the whole changelog."""

    def wrong(pipeline: Any, current: Any, staged: Any, stage: Any) -> Any:
        waits = any(part.files for part in staged.slices)
        return waits and behind(pipeline, current, staged, stage)

    return wrong


PLANTED["rebuild is swapped in twice"] = PlantedMistake(((rebuild, "_swap_committed", instead(False)),))
PLANTED["epoch not raised by a rebuild"] = PlantedMistake(((swap_stage, "last_epoch", instead(0)),))


@plant((swap.Swap, "_remove_all"))
def rebuild_leaves_the_old_rows(_remove_all: Any) -> Any:
    return lambda self: (list(load_manifests(self.table.io, self.head)), ())


@plant((swap_stage, "superseded_stage_files"))
def rebuild_deletes_files_that_it_needs(_left: Any) -> Any:
    return lambda io, stage, _root: references.files_of_history(io, stage.table.metadata)


@plant((swap_stage, "superseded_stage_files"))
def files_of_a_rebuild_left_behind(_left: Any) -> Any:
    return lambda *_arguments: set()


@plant((rebuild, "save_stage"))
def stage_forgets_its_last_slice(save: Any) -> Any:
    def wrong(self: Any, location: str, events: int) -> Any:
        kept = self.catalog.metadata
        if len(kept.snapshots) > 1:
            last, before = kept.snapshots[-1], kept.snapshots[-2]
            refs = {"main": kept.refs["main"].model_copy(update={"snapshot_id": before.snapshot_id})}
            stale = before.summary.additional_properties
            noted = {
                **stale,
                "icemirror.cursor": last.summary.additional_properties["icemirror.cursor"],
            }
            forged = before.model_copy(
                update={"summary": type(before.summary)(before.summary.operation, **noted)}
            )
            update = {"snapshots": [*kept.snapshots[:-2], forged], "refs": refs}
            self.catalog.metadata = kept.model_copy(
                update={**update, "current_snapshot_id": before.snapshot_id}
            )
        return save(self, location, events)

    return wrong


@plant((swap_stage, "commit_with_root"))
def old_cursor_kept_by_a_rebuild(commit: Any) -> Any:
    """The swap ignores how far the stage has merged."""

    def wrong(swap: Any, root: Any, cursor: Cursor, *given: Any, **named: Any) -> Any:
        head = swap.table.current_snapshot().summary
        text = head.additional_properties.get("icemirror.cursor") if head else None
        kept = Cursor.model_validate_json(text) if text else cursor
        return commit(swap, root, kept if kept.sources else cursor, *given, **named)

    return wrong


NAMES = frozenset(PLANTED) - _before
