"""Builds a mirror from scratch in a hidden stage, and swaps it in with one commit.

    begin ─► merge a slice ─► merge a slice … ─► no longer behind the mirror ─► swap
             into the stage                        (else: another slice)        ONE snapshot on the mirror

Readers see the old rows or the new ones. Rows that other engines wrote to the mirror are not in the changelog and are
not in the rebuilt mirror.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyiceberg.table import Table

from icemirror.errors import CommitUnknown, Conflict, Corrupt, IcemirrorError, Invalid, Transient
from icemirror.processes.crash_points import crash_point
from icemirror.protocol.replay import ReplayProgress, ReplayStep
from icemirror.settings import TableSettings
from icemirror.telemetry.logs import get_log
from spark_job.columns.field_map import load_field_map
from spark_job.commit.retry import ConflictRetries
from spark_job.iceberg.mirror import Mirror, read_mirror, require_mirror
from spark_job.iceberg.property_names import PROPERTY_FIELD_MAP, PROPERTY_SOURCE
from spark_job.iceberg.stage import (
    Stage,
    StageLocation,
    begin_stage,
    completed_rebuilds,
    find_stage,
    save_stage,
)
from spark_job.index.location import index_location
from spark_job.plan.apply_truncation import refuse_truncation_in_resync
from spark_job.plan.attempt_findings import AttemptFindings
from spark_job.plan.backlog import backlog_after
from spark_job.plan.delete_mode import has_hard_deletes, require_same_delete_mode
from spark_job.plan.divergence import Diverged, DivergenceCause
from spark_job.plan.planner import Planner
from spark_job.plan.plans import Blocked, Merge, Plan, Rebuild, plan_diverged, plan_next
from spark_job.plan.table_plan import TablePlan
from spark_job.rebuild.executor import PlanExecutor
from spark_job.rebuild.restore_cursor import restore_expired_cursor
from spark_job.rebuild.settings_fingerprint import fingerprint_settings
from spark_job.rebuild.stage_progress import is_stage_behind, limit_to_goal
from spark_job.rebuild.swap_stage import swap_stage
from spark_job.storage.discard import discard
from spark_job.storage.translate_errors import translate_table_errors

log = get_log(__name__)


def rebuild_step(
    executor: PlanExecutor, table: TableSettings, request: str, progress: ReplayProgress | None
) -> ReplayStep:
    """Merge one more slice into the stage of a request, or swap it in, which happens once per request."""
    progress = progress or ReplayProgress()
    retries = ConflictRetries(
        exhausted="another writer committed before each swap. Find out which other job writes to the mirror: "
        f"{table.name}"
    )
    while True:
        mirror = executor.catalogs.load_mirror(table)
        if mirror is None or mirror.current_snapshot() is None:
            return ReplayStep(progress, done=True)  # the next merge builds it
        if _is_swapped_in(mirror, request):
            return ReplayStep(progress, done=True, rebuilt=True)
        with retries:
            try:
                return advance_stage(executor, table, mirror, StageLocation(request, progress.mark))
            except (CommitUnknown, Conflict):
                raise
            except IcemirrorError as error:
                # Another worker may have swapped the same stage in and removed its files.
                current_mirror = executor.catalogs.load_mirror(table)
                if current_mirror is None or not _is_swapped_in(current_mirror, request):
                    raise
                log.info("another worker swapped the stage in", replay=request, reason=str(error))
                return ReplayStep(progress, done=True, rebuilt=True)


def advance_stage(
    executor: PlanExecutor, table: TableSettings, mirror: Table, location: StageLocation
) -> ReplayStep:
    """Merge one more slice into the stage at a location, or swap it in, fenced on the mirror's head."""
    with translate_table_errors(table.name):
        replaced_mirror = _read_replaced_mirror(mirror, table.name)
        stage, stage_plan = _open_stage(executor.planner, table, mirror, replaced_mirror, location)
        if is_stage_behind(executor.planner, replaced_mirror, stage_plan, stage):
            return _merge_slice(executor, table, mirror, stage, replaced_mirror)
        changelogs = _merged_changelogs(mirror, replaced_mirror)
        position = swap_stage(executor, table, mirror, stage, stage_plan, changelogs)
    progress = ReplayProgress(stage.events, stage.events, changed_rows=position.live_rows)
    return ReplayStep(progress, done=True, position=position, rebuilt=True)


def plan_rebuild(planner: Planner, table: TableSettings) -> TablePlan:
    """Return what a rebuild that begins now would merge; raise if the mirror cannot be rebuilt."""
    mirror = planner.catalogs.load_mirror(table)
    is_mirror = mirror is not None and PROPERTY_FIELD_MAP in mirror.metadata.properties
    with translate_table_errors(table.name):
        table_plan = planner.plan_for_mirror(
            table, _without_merged_rows(mirror) if mirror is not None and is_mirror else None
        )
        if isinstance(table_plan, Diverged):
            raise table_plan.error
        table_plan.require_allowed_schema_change()
    return table_plan


def _is_swapped_in(mirror: Table, request: str) -> bool:
    """Return whether an earlier attempt committed the swap: its response may be lost, its snapshot may have expired."""
    return request in completed_rebuilds(mirror)


def _read_replaced_mirror(mirror: Table, name: str) -> Mirror | None:
    """Return the mirror that the rebuild replaces; None if it is unreadable, which does not prevent a rebuild."""
    require_mirror(mirror, name)
    try:
        return read_mirror(mirror, name)
    except (Invalid, Corrupt) as error:
        log.warning("mirror unreadable, rebuilding it anyway", reason=str(error))
        return None


def _open_stage(
    planner: Planner,
    table: TableSettings,
    mirror: Table,
    replaced_mirror: Mirror | None,
    location: StageLocation,
) -> tuple[Stage, TablePlan]:
    """Return the stage and what it has not merged yet; a new stage if the saved one cannot be continued."""
    return _continue_stage(planner, table, mirror, replaced_mirror, location) or _begin_stage(
        planner, table, mirror, replaced_mirror, location
    )


def _continue_stage(
    planner: Planner,
    table: TableSettings,
    mirror: Table,
    replaced_mirror: Mirror | None,
    location: StageLocation,
) -> tuple[Stage, TablePlan] | None:
    """Return the saved stage and its plan; None if there is no stage, or it cannot be continued."""
    stage = find_stage(mirror, location, fingerprint_settings(table))
    if stage is None:
        return None
    try:
        stage_plan = _plan_stage(planner, table, stage, replaced_mirror)
        if isinstance(stage_plan, Diverged):
            log.warning("rebuild restarted", reason=stage_plan.message)
            return None
        _require_same_deletes(table, stage_plan)
    except Invalid as error:
        log.warning("rebuild restarted", reason=str(error))
        return None
    is_readable = stage_plan.mirror is not None and not stage_plan.mirror.root_unreadable
    return (stage, stage_plan) if is_readable else None


def _begin_stage(
    planner: Planner,
    table: TableSettings,
    mirror: Table,
    replaced_mirror: Mirror | None,
    location: StageLocation,
) -> tuple[Stage, TablePlan]:
    """Return an empty stage and its plan. Raise if the mirror cannot be rebuilt."""
    stage = begin_stage(mirror, location, fingerprint_settings(table))
    stage_plan = _plan_stage(planner, table, stage, replaced_mirror)
    if isinstance(stage_plan, Diverged):
        raise stage_plan.error
    stage_plan.require_allowed_schema_change()
    if location.is_by_policy and table.on_truncate == "stop":
        refuse_truncation_in_resync(stage_plan)
    head = stage_plan.changelog.current_snapshot()
    if head is None:
        _require_empty_allowed(stage_plan, _merged_changelogs(mirror, replaced_mirror), location)
    crash_point("stage-begun")
    log.info("rebuild started", replay=stage.request, reason=location.reason)
    goal_sequence_number = head.sequence_number or 0 if head else 0
    return replace(stage, goal_sequence_number=goal_sequence_number), stage_plan


def _require_same_deletes(table: TableSettings, stage_plan: TablePlan) -> None:
    """Raise `Invalid` if the stage was built with another delete_mode."""
    require_same_delete_mode(table, stage_plan.mirror)
    if stage_plan.mirror is not None and has_hard_deletes(table, stage_plan.mirror):
        raise Invalid(f"{table.name}: the stage lacks the deleted rows that delete_mode: soft keeps")


def _require_empty_allowed(stage_plan: TablePlan, changelogs: Sequence[str], location: StageLocation) -> None:
    """Raise instead of emptying the mirror, unless a recreated changelog without events demands it by policy."""
    name = stage_plan.settings.changelog_id
    if str(stage_plan.changelog.metadata.table_uuid) == changelogs[-1]:
        raise Transient(f"{name}: the catalog shows it without the events that were merged from it.")
    if not location.is_by_policy:
        raise Invalid(f"{name}: has no events, so nothing can be built from it; the mirror is unchanged.")


def _merged_changelogs(mirror: Table, replaced_mirror: Mirror | None) -> list[str]:
    """Return the uuids of the changelog that the mirror was built from and of the one that it merged last.

    They differ after a rollback.
    """
    built_from_uuid = mirror.metadata.properties.get(PROPERTY_SOURCE, "").rpartition(" ")[2]
    cursor = replaced_mirror.cursor if replaced_mirror else None
    return [built_from_uuid, cursor.source.uuid] if cursor else [built_from_uuid]


def _without_merged_rows(table: Table) -> Mirror:
    """Return the mirror as if nothing had been merged yet."""
    return Mirror(table, None, None, 0, None, load_field_map(table.metadata.properties[PROPERTY_FIELD_MAP]))


def _plan_stage(
    planner: Planner, table: TableSettings, stage: Stage, replaced_mirror: Mirror | None
) -> TablePlan | Diverged:
    """Return what the stage has not merged yet; the changelog is loaded after the mirror was."""
    has_rows = stage.table.current_snapshot() is not None
    stage_mirror = read_mirror(stage.table, table.name) if has_rows else _without_merged_rows(stage.table)
    stage_plan = planner.plan_for_mirror(table, stage_mirror)
    if (
        isinstance(stage_plan, Diverged)
        and stage_plan.cause is DivergenceCause.CURSOR_EXPIRED
        and not table.append_only
    ):
        restored_mirror = restore_expired_cursor(stage_mirror, planner.load_changelog(table, stage_mirror))
        if restored_mirror is not None:
            log.info(
                "cursor of the rebuild expired, continuing from the oldest snapshot",
                reason=stage_plan.message,
            )
            stage_plan = planner.plan_for_mirror(table, restored_mirror)
    if isinstance(stage_plan, Diverged):
        return stage_plan
    return replace(stage_plan, is_stage=True, replaced_mirror=replaced_mirror)


def _merge_slice(
    executor: PlanExecutor, table: TableSettings, mirror: Table, stage: Stage, replaced_mirror: Mirror | None
) -> ReplayStep:
    """Merge one more slice into the stage."""
    if stage.previous_path is not None:  # the state row refers to a later file by now
        discard(mirror.io, [stage.previous_path])

    def make_plan(findings: AttemptFindings) -> Plan:
        stage_plan = _plan_stage(executor.planner, table, stage, replaced_mirror)
        if isinstance(stage_plan, Diverged):
            return plan_diverged(stage_plan)
        return plan_next(limit_to_goal(executor.planner, stage_plan, stage.goal_sequence_number), findings)

    executed = executor.execute(table, make_plan)
    match executed.plan:
        case Merge(table_plan=table_plan, slice=slice_):
            crash_point("stage-merged")
            saved_stage = save_stage(
                stage, index_location(mirror.metadata, executor.settings.index_location), slice_.events
            )
            crash_point("stage-kept")
        case Rebuild(cause=cause) | Blocked(cause=cause) as stopped:
            if cause is DivergenceCause.SOURCE_TRUNCATED and stage.path:
                discard(mirror.io, [stage.path])  # otherwise the next attempt continues with it
            reason = stopped.reason if isinstance(stopped, Rebuild) else str(stopped.error)
            raise Conflict(f"{table.name}: rebuild restarted. {reason}")
        case _:
            raise Conflict(f"{table.name}: the stage has nothing more to merge")
    backlog = backlog_after(table_plan, 1)
    progress = ReplayProgress(
        events=saved_stage.events,
        of_events=saved_stage.events + backlog.events,
        mark=saved_stage.path,
    )
    log.info("slice staged", replay=stage.request, events=progress.events, of_events=progress.of_events)
    return ReplayStep(progress, done=False, backlog=backlog)
