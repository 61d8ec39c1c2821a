"""Mistakes in a resync: the changelog was recreated, or its history has expired."""

from __future__ import annotations

from typing import Any

from icemirror.tables.cursor import Cursor
from spark_job.commit import swap
from spark_job.iceberg.manifests import load_manifests
from spark_job.plan import planner, table_plan
from spark_job.rebuild import rebuild, swap_stage
from tests.sim.engine.planting import PLANTED, plant

_before = frozenset(PLANTED)


@plant((rebuild, "_is_behind"))
def readers_see_an_incomplete_rebuild(behind: Any) -> Any:
    """Old rows are removed first, and readers see the new ones slice by slice."""

    def wrong(pipeline: Any, current: Any, staged: Any, stage: Any) -> Any:
        return not stage.overwrites_file and behind(pipeline, current, staged, stage)

    return wrong


@plant((swap.Swap, "_remove_all"))
def rows_of_the_old_changelog_survive(_remove_all: Any) -> Any:
    return lambda self: (list(load_manifests(self.table.io, self.head)), ())


@plant((swap_stage, "commit_with_root"))
def cursor_lost_between_stage_and_swap(commit: Any) -> Any:
    """The stage is swapped in without its cursor."""

    def wrong(swap: Any, root: Any, _cursor: Cursor, *given: Any, **named: Any) -> Any:
        return commit(swap, root, Cursor(sources=()), *given, **named)

    return wrong


@plant((rebuild, "find_stage"))
def rebuild_restarts_forever(find: Any) -> Any:
    return lambda mirror, place, mark: None if place.by_policy else find(mirror, place, mark)


@plant((table_plan, "find_recreated"), (planner, "find_recreated"))
def recreated_changelog_taken_for_the_old_one(_require: Any) -> Any:
    return lambda *_given: None


NAMES = frozenset(PLANTED) - _before
