"""Decides whether a stage may replace its mirror, and how far it is merged."""

from __future__ import annotations

from dataclasses import replace

from icemirror.errors import Invalid, Transient
from icemirror.tables.cursor import CursorSource
from icemirror.telemetry.logs import get_log
from spark_job.changelog.truncations import is_new_truncation
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.stage import Stage
from spark_job.plan.backlog import plan_unmerged_slices
from spark_job.plan.divergence import Diverged
from spark_job.plan.planner import Planner
from spark_job.plan.table_plan import TablePlan

log = get_log(__name__)


def is_stage_behind(
    planner: Planner, replaced_mirror: Mirror | None, stage_plan: TablePlan, stage: Stage
) -> bool:
    """Return whether the mirror has merged something that the stage has not: a swap would undo it.

    If the mirror cannot be continued, compare with the goal and with what the mirror merged. A stale catalog response
    does not justify a swap.
    """
    waiting_paths = {file.path for slice_ in stage_plan.slices for file in slice_.files}
    cursor = stage_plan.mirror.cursor if stage_plan.mirror else None
    if cursor is None:
        return bool(stage_plan.slices)  # also a slice without files: only a commit can replace the mirror
    if waiting_paths and _lacks_truncation(replaced_mirror, cursor.source):
        return True
    if (
        replaced_mirror is not None
        and (unmerged_paths := _unmerged_paths(planner, replaced_mirror, stage_plan)) is not None
    ):
        return not waiting_paths <= unmerged_paths
    merged_source = (
        replaced_mirror.cursor.source if replaced_mirror and replaced_mirror.cursor else cursor.source
    )
    goal = (
        max(stage.goal_sequence_number, merged_source.sequence_number)
        if merged_source.uuid == cursor.source.uuid
        else stage.goal_sequence_number
    )
    if 0 < stage_plan.changelog.metadata.next_sequence_number() <= goal:
        raise Transient(
            f"{stage_plan.table_settings.changelog_id}: the catalog returned a state before commit {goal}; a later "
            "poll may return a newer one."
        )
    return bool(waiting_paths) and not _has_merged_commit(cursor.source, goal)


def _unmerged_paths(planner: Planner, replaced_mirror: Mirror, stage_plan: TablePlan) -> set[str] | None:
    """Return the changelog files that the mirror has not merged; None if the mirror cannot be continued."""
    # The user may request a rebuild from a former changelog.
    mirror = replace(replaced_mirror, former_changelogs=frozenset())
    try:
        unmerged = plan_unmerged_slices(
            stage_plan.table_settings, stage_plan.changelog, mirror, planner.limits
        )
    except Invalid as error:
        log.info("mirror cannot be continued", reason=str(error))
        return None
    if isinstance(unmerged, Diverged):
        log.info("mirror cannot be continued", reason=unmerged.message)
        return None
    return {file.path for slice_ in unmerged.slices for file in slice_.files}


def _lacks_truncation(replaced_mirror: Mirror | None, source: CursorSource) -> bool:
    """Return whether the stage has not merged the commit that contains its truncation: a swap must publish both."""
    truncation = source.truncated
    merged_source = replaced_mirror.cursor.source if replaced_mirror and replaced_mirror.cursor else None
    applied = merged_source.truncated if merged_source and merged_source.uuid == source.uuid else None
    if truncation is None or not is_new_truncation(truncation, applied):
        return False
    return not _has_merged_commit(source, truncation.commit)


def _has_merged_commit(source: CursorSource, sequence_number: int) -> bool:
    """Return whether the cursor's source has merged a commit. Tables of format v1 number no commits: then False."""
    return sequence_number > 0 and (
        source.sequence_number > sequence_number
        or (source.sequence_number == sequence_number and source.files_done is None)
    )


def limit_to_goal(planner: Planner, stage_plan: TablePlan, goal: int) -> TablePlan:
    """Return the plan up to the head at which the stage was begun: the next rebuild applies later truncations."""
    if not stage_plan.shape.truncate_operations or not goal:
        return stage_plan
    unmerged = plan_unmerged_slices(
        stage_plan.table_settings, stage_plan.changelog, stage_plan.mirror, planner.limits, up_to=goal
    )
    cursor = stage_plan.mirror.cursor if stage_plan.mirror else None
    if isinstance(unmerged, Diverged) or all(
        not slice_.files and slice_.cursor == cursor for slice_ in unmerged.slices
    ):
        return stage_plan  # everything up to the goal is staged
    slices = unmerged.slices
    paths_up_to_goal = {file.path for slice_ in slices for file in slice_.files}
    return replace(stage_plan, slices=slices, deferred_paths=stage_plan.unmerged_paths - paths_up_to_goal)
