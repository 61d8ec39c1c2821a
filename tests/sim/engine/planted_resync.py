"""Defects in a resync: the changelog was recreated, or its history has expired."""

from __future__ import annotations

from typing import Any

from icemirror.tables.cursor import Cursor
from spark_job.commit import swap_snapshot
from spark_job.iceberg.manifests import load_manifests
from spark_job.plan import backlog, planner
from spark_job.rebuild import rebuild, swap_stage
from tests.sim.engine.planting import PLANTED, plant

_before = frozenset(PLANTED)


@plant((rebuild, "is_stage_behind"))
def readers_see_an_incomplete_rebuild(behind: Any) -> Any:
    """Removes old rows first, so that readers see the new ones slice by slice."""

    def defective(pipeline: Any, current: Any, staged: Any, stage: Any) -> Any:
        return not stage.overwrites_file and behind(pipeline, current, staged, stage)

    return defective


@plant((swap_snapshot.Swap, "_remove_all"))
def rows_of_the_old_changelog_survive(_remove_all: Any) -> Any:
    return lambda self: (list(load_manifests(self.table.io, self.head)), ())


@plant((swap_stage, "commit_snapshot"))
def cursor_lost_between_stage_and_swap(commit: Any) -> Any:
    """Swaps the stage in without its cursor."""

    def defective(swap: Any, root: Any, _cursor: Cursor, *arguments: Any, **options: Any) -> Any:
        return commit(swap, root, Cursor(sources=()), *arguments, **options)

    return defective


@plant((rebuild, "find_stage"))
def rebuild_restarts_forever(find: Any) -> Any:
    return lambda mirror, location, mark: None if location.is_by_policy else find(mirror, location, mark)


@plant((backlog, "find_recreated"), (planner, "find_recreated"))
def recreated_changelog_taken_for_the_old_one(_require: Any) -> Any:
    return lambda *_arguments: None


NAMES = frozenset(PLANTED) - _before
