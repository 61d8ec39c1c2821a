"""Mistakes in following a changelog that was made anew, or whose history is gone."""

from __future__ import annotations

from typing import Any

from icemirror.cursor import Cursor
from spark_job import pipeline
from spark_job.iceberg import swap
from spark_job.iceberg.manifests import known_manifests
from spark_job.planning import stock
from spark_job.replays import rebuild
from tests.sim.engine.planting import BUGS, plant

_before = frozenset(BUGS)


@plant((rebuild, "_is_behind"))
def readers_see_nothing_until_it_is_built(behind: Any) -> Any:
    """What was is taken out first, and built up again in sight."""

    def wrong(pipeline: Any, standing: Any, staged: Any, stage: Any) -> Any:
        return not stage.fixed and behind(pipeline, standing, staged, stage)

    return wrong


@plant((swap.Swap, "_take_out"))
def rows_of_the_old_changelog_survive(_take_out: Any) -> Any:
    return lambda self: (list(known_manifests(self.table.io, self.head)), ())


@plant((rebuild, "stamp"))
def cursor_lost_between_stage_and_swap(stamp: Any) -> Any:
    """What was staged is swapped in, but nobody knows how far it was merged."""

    def wrong(table: Any, root: Any, path: str, _cursor: Cursor, *given: Any, **named: Any) -> Any:
        return stamp(table, root, path, Cursor(sources=()), *given, **named)

    return wrong


@plant((rebuild, "find_stage"))
def rebuild_restarts_for_ever(find: Any) -> Any:
    return lambda mirror, place, mark: None if place.by_policy else find(mirror, place, mark)


@plant((stock, "require_same_changelog"), (pipeline, "require_same_changelog"))
def another_changelog_taken_for_the_old_one(_require: Any) -> Any:
    return lambda *_given: None


NAMES = frozenset(BUGS) - _before
