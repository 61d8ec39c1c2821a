"""Mistakes in replays and rebuilds."""

from __future__ import annotations

from typing import Any

from icemirror.cursor import Cursor, Source
from spark_job import shard
from spark_job.iceberg import swap
from spark_job.iceberg.manifests import known_manifests
from spark_job.key_index.root import Root
from spark_job.replays import rebuild, replay
from spark_job.staging import stage_files
from spark_job.staging.stage import Stage
from tests.sim.engine.planting import BUGS, Bug, instead, plant

_before = frozenset(BUGS)

# Replays


@plant((shard, "decide"))
def replay_applies_ties(decide: Any) -> Any:
    def wrong(changes: Any, located: Any, replay: bool) -> Any:
        return decide(changes, located, replay=False)

    return wrong


@plant((replay, "Slice"))
def replay_moves_the_cursor_back(_slice: Any) -> Any:
    def wrong(files: Any, cursor: Cursor) -> Any:
        there = cursor.source
        first = Source(
            uuid=there.uuid, snapshot_id=files[0].snapshot_id, sequence_number=files[0].sequence_number
        )
        back = min(there, first, key=lambda one: one.sequence_number)
        return _slice(files, Cursor(sources=(back,)))

    return wrong


BUGS["replay takes what waits to be merged"] = Bug(((replay, "_waiting", instead(set())),))

# Rebuilds


@plant((swap.Swap, "_prepare"))
def rebuild_swaps_without_a_fence(prepare: Any) -> Any:
    def wrong(self: Any) -> Any:
        self.table = self.table.catalog.load_table(self.table.name())
        self.head = self.table.current_snapshot()
        updates, (uuid, _fence) = prepare(self)
        return updates, (uuid,)

    return wrong


@plant((rebuild, "write_root"))
def rebuild_keeps_the_old_index(write: Any) -> Any:
    def wrong(io: Any, path: str, root: Root) -> Any:
        older = _known_roots[-1] if _known_roots else root
        return write(
            io, path, older.model_copy(update={"snapshot_id": root.snapshot_id, "epoch": root.epoch})
        )

    return wrong


_known_roots: list[Root] = []


def _noting_roots(standing: Any) -> Any:
    def noting(*given: Any) -> Any:
        mirror = standing(*given)
        _known_roots[:] = [mirror.root] if mirror is not None and mirror.root is not None else []
        return mirror

    return noting


BUGS["rebuild keeps the old index"] = Bug(
    (*BUGS["rebuild keeps the old index"].changes, (rebuild, "_standing", _noting_roots))
)


@plant((rebuild, "_is_behind"))
def rebuild_swaps_though_it_is_behind(_behind: Any) -> Any:
    return lambda _pipeline, _standing, staged, _stage: staged.mirror.cursor is None and bool(staged.slices)


@plant((rebuild, "_is_behind"))
def rebuild_trusts_a_changelog_as_it_was(behind: Any) -> Any:
    """Nothing waits in what is shown: as if that were all."""

    def wrong(pipeline: Any, standing: Any, staged: Any, stage: Any) -> Any:
        waits = any(part.files for part in staged.slices)
        return waits and behind(pipeline, standing, staged, stage)

    return wrong


BUGS["rebuild is swapped in twice"] = Bug(((rebuild, "_is_swapped", instead(False)),))
BUGS["epoch not raised by a rebuild"] = Bug(((rebuild, "greatest_epoch", instead(0)),))


@plant((swap.Swap, "_take_out"))
def rebuild_leaves_the_old_rows(_take_out: Any) -> Any:
    return lambda self: (list(known_manifests(self.table.io, self.head)), ())


@plant((rebuild, "left_over"))
def rebuild_tidies_up_what_it_needs(_left: Any) -> Any:
    return lambda io, stage, _root: stage_files.named_by(io, stage.table.metadata)


@plant((rebuild, "left_over"))
def files_of_a_rebuild_left_behind(_left: Any) -> Any:
    return lambda *_arguments: set()


@plant((Stage, "save"))
def stage_forgets_its_last_slice(save: Any) -> Any:
    def wrong(self: Any, location: str, events: int) -> Any:
        kept = self.catalog.metadata
        if len(kept.snapshots) > 1:
            last, before = kept.snapshots[-1], kept.snapshots[-2]
            refs = {"main": kept.refs["main"].model_copy(update={"snapshot_id": before.snapshot_id})}
            stale = before.summary.additional_properties
            told = {**stale, "icemirror.cursor": last.summary.additional_properties["icemirror.cursor"]}
            forged = before.model_copy(
                update={"summary": type(before.summary)(before.summary.operation, **told)}
            )
            update = {"snapshots": [*kept.snapshots[:-2], forged], "refs": refs}
            self.catalog.metadata = kept.model_copy(
                update={**update, "current_snapshot_id": before.snapshot_id}
            )
        return save(self, location, events)

    return wrong


@plant((rebuild, "stamp"))
def cursor_of_the_mirror_kept_by_a_rebuild(stamp: Any) -> Any:
    """As if the swap had nothing to do with how far the stage has merged."""

    def wrong(table: Any, root: Any, path: str, cursor: Cursor, *given: Any, **named: Any) -> Any:
        head = table.current_snapshot().summary
        told = head.additional_properties.get("icemirror.cursor") if head else None
        kept = Cursor.model_validate_json(told) if told else cursor
        return stamp(table, root, path, kept if kept.sources else cursor, *given, **named)

    return wrong


NAMES = frozenset(BUGS) - _before
