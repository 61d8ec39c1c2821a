"""Builds a mirror from scratch in a hidden stage, and swaps it in with one commit.

    begin ─► merge a slice ─► merge a slice … ─► no longer behind the mirror ─► swap
             into the stage                        (else: another slice)        ONE snapshot on the mirror

Readers see the old rows or the new ones. Rows that other engines wrote to the mirror are not in the changelog and are
not in the rebuilt mirror.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyiceberg.table import Table

from icemirror.errors import CommitUnknown, Conflict, Corrupt, IcemirrorError, Invalid, Transient
from icemirror.processes.crash_points import crash_point
from icemirror.protocol.replay import ReplayProgress, ReplayStep
from icemirror.settings import TableSettings
from icemirror.step_results import Backlog, MirrorStatus
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


@dataclass(frozen=True)
class StagedSlice:
    """One more slice is in the stage. `stage_path`: where it continues; `backlog`: what it has not merged yet."""

    events: int
    stage_path: str | None
    backlog: Backlog


@dataclass(frozen=True)
class SwappedStage:
    """The stage became the mirror."""

    events: int
    mirror_status: MirrorStatus


def rebuild_step(
    executor: PlanExecutor, table_settings: TableSettings, request_id: str, progress: ReplayProgress | None
) -> ReplayStep:
    """Merge one more slice into the stage of a request, or swap it in, which happens once per request."""
    progress = progress or ReplayProgress()
    retries = ConflictRetries(
        exhausted="another writer committed before each swap. Find out which other job writes to the mirror: "
        f"{table_settings.name}"
    )
    while True:
        mirror_table = executor.catalogs.load_mirror(table_settings)
        if mirror_table is None or mirror_table.current_snapshot() is None:
            return ReplayStep(progress, done=True)  # the next merge builds it
        if _is_swapped_in(mirror_table, request_id):
            return ReplayStep(progress, done=True, rebuilt=True)
        with retries:
            try:
                location = StageLocation(request_id, progress.mark)
                return _to_replay_step(advance_stage(executor, table_settings, mirror_table, location))
            except (CommitUnknown, Conflict):
                raise
            except IcemirrorError as error:
                # Another worker may have swapped the same stage in and removed its files.
                current_mirror = executor.catalogs.load_mirror(table_settings)
                if current_mirror is None or not _is_swapped_in(current_mirror, request_id):
                    raise
                log.info("another worker swapped the stage in", replay=request_id, reason=str(error))
                return ReplayStep(progress, done=True, rebuilt=True)


def advance_stage(
    executor: PlanExecutor, table_settings: TableSettings, mirror_table: Table, location: StageLocation
) -> StagedSlice | SwappedStage:
    """Merge one more slice into the stage at a location, or swap it in, fenced on the mirror's head."""
    with translate_table_errors(table_settings.name):
        replaced_mirror = _read_replaced_mirror(mirror_table, table_settings.name)
        stage, stage_plan = _open_stage(
            executor.planner, table_settings, mirror_table, replaced_mirror, location
        )
        if is_stage_behind(executor.planner, replaced_mirror, stage_plan, stage):
            return _stage_slice(executor, table_settings, mirror_table, stage, replaced_mirror)
        changelogs = _merged_changelogs(mirror_table, replaced_mirror)
        mirror_status = swap_stage(executor, table_settings, mirror_table, stage, stage_plan, changelogs)
    return SwappedStage(stage.events, mirror_status)


def _to_replay_step(result: StagedSlice | SwappedStage) -> ReplayStep:
    match result:
        case StagedSlice(events, stage_path, backlog):
            progress = ReplayProgress(events, events + backlog.events, mark=stage_path)
            return ReplayStep(progress, done=False, backlog=backlog)
        case SwappedStage(events, mirror_status):
            # A rebuild writes every row, so all of them count as changed.
            progress = ReplayProgress(events, events, changed_rows=mirror_status.live_rows)
            return ReplayStep(progress, done=True, mirror_status=mirror_status, rebuilt=True)


def plan_rebuild(planner: Planner, table_settings: TableSettings) -> TablePlan:
    """Return what a rebuild that begins now would merge; raise if the mirror cannot be rebuilt."""
    mirror_table = planner.catalogs.load_mirror(table_settings)
    is_mirror = mirror_table is not None and PROPERTY_FIELD_MAP in mirror_table.metadata.properties
    with translate_table_errors(table_settings.name):
        table_plan = planner.plan_for_mirror(
            table_settings,
            _without_merged_rows(mirror_table) if mirror_table is not None and is_mirror else None,
        )
        if isinstance(table_plan, Diverged):
            raise table_plan.error
        table_plan.require_allowed_schema_change()
    return table_plan


def _is_swapped_in(mirror_table: Table, request_id: str) -> bool:
    """Return whether an earlier attempt committed the swap: its response may be lost, its snapshot may have expired."""
    return request_id in completed_rebuilds(mirror_table)


def _read_replaced_mirror(mirror_table: Table, name: str) -> Mirror | None:
    """Return the mirror that the rebuild replaces; None if it is unreadable, which does not prevent a rebuild."""
    require_mirror(mirror_table, name)
    try:
        return read_mirror(mirror_table, name)
    except (Invalid, Corrupt) as error:
        log.warning("mirror unreadable, rebuilding it anyway", reason=str(error))
        return None


def _open_stage(
    planner: Planner,
    table_settings: TableSettings,
    mirror_table: Table,
    replaced_mirror: Mirror | None,
    location: StageLocation,
) -> tuple[Stage, TablePlan]:
    """Return the stage and what it has not merged yet; a new stage if the saved one cannot be continued."""
    return _continue_stage(
        planner, table_settings, mirror_table, replaced_mirror, location
    ) or _plan_new_stage(planner, table_settings, mirror_table, replaced_mirror, location)


def _continue_stage(
    planner: Planner,
    table_settings: TableSettings,
    mirror_table: Table,
    replaced_mirror: Mirror | None,
    location: StageLocation,
) -> tuple[Stage, TablePlan] | None:
    """Return the saved stage and its plan; None if there is no stage, or it cannot be continued."""
    stage = find_stage(mirror_table, location, fingerprint_settings(table_settings))
    if stage is None:
        return None
    try:
        stage_plan = _plan_stage(planner, table_settings, stage, replaced_mirror)
        if isinstance(stage_plan, Diverged):
            log.warning("rebuild restarted", reason=stage_plan.message)
            return None
        _require_same_deletes(table_settings, stage_plan)
    except Invalid as error:
        log.warning("rebuild restarted", reason=str(error))
        return None
    is_readable = stage_plan.mirror is not None and not stage_plan.mirror.root_unreadable
    return (stage, stage_plan) if is_readable else None


def _plan_new_stage(
    planner: Planner,
    table_settings: TableSettings,
    mirror_table: Table,
    replaced_mirror: Mirror | None,
    location: StageLocation,
) -> tuple[Stage, TablePlan]:
    """Return an empty stage and its plan. Raise if the mirror cannot be rebuilt."""
    stage = begin_stage(mirror_table, location, fingerprint_settings(table_settings))
    stage_plan = _plan_stage(planner, table_settings, stage, replaced_mirror)
    if isinstance(stage_plan, Diverged):
        raise stage_plan.error
    stage_plan.require_allowed_schema_change()
    if location.is_by_policy and table_settings.on_truncate == "stop":
        refuse_truncation_in_resync(stage_plan)
    head = stage_plan.changelog.current_snapshot()
    if head is None:
        _require_empty_allowed(stage_plan, _merged_changelogs(mirror_table, replaced_mirror), location)
    crash_point("stage-begun")
    log.info("rebuild started", replay=stage.request_id, reason=location.reason)
    goal_sequence_number = head.sequence_number or 0 if head else 0
    return replace(stage, goal_sequence_number=goal_sequence_number), stage_plan


def _require_same_deletes(table_settings: TableSettings, stage_plan: TablePlan) -> None:
    """Raise `Invalid` if the stage was built with another delete_mode."""
    require_same_delete_mode(table_settings, stage_plan.mirror)
    if stage_plan.mirror is not None and has_hard_deletes(table_settings, stage_plan.mirror):
        raise Invalid(f"{table_settings.name}: the stage lacks the deleted rows that delete_mode: soft keeps")


def _require_empty_allowed(stage_plan: TablePlan, changelogs: Sequence[str], location: StageLocation) -> None:
    """Raise instead of emptying the mirror, unless a recreated changelog without events demands it by policy."""
    name = stage_plan.table_settings.changelog_id
    if str(stage_plan.changelog.metadata.table_uuid) == changelogs[-1]:
        raise Transient(f"{name}: the catalog shows it without the events that were merged from it.")
    if not location.is_by_policy:
        raise Invalid(f"{name}: has no events, so nothing can be built from it; the mirror is unchanged.")


def _merged_changelogs(mirror_table: Table, replaced_mirror: Mirror | None) -> list[str]:
    """Return the uuids of the changelog that the mirror was built from and of the one that it merged last.

    They differ after a rollback.
    """
    built_from_uuid = mirror_table.metadata.properties.get(PROPERTY_SOURCE, "").rpartition(" ")[2]
    cursor = replaced_mirror.cursor if replaced_mirror else None
    return [built_from_uuid, cursor.source.uuid] if cursor else [built_from_uuid]


def _without_merged_rows(mirror_table: Table) -> Mirror:
    """Return the mirror as if nothing had been merged yet."""
    return Mirror(
        mirror_table,
        None,
        None,
        0,
        None,
        load_field_map(mirror_table.metadata.properties[PROPERTY_FIELD_MAP]),
    )


def _plan_stage(
    planner: Planner, table_settings: TableSettings, stage: Stage, replaced_mirror: Mirror | None
) -> TablePlan | Diverged:
    """Return what the stage has not merged yet; the changelog is loaded after the mirror was."""
    has_rows = stage.table.current_snapshot() is not None
    stage_mirror = (
        read_mirror(stage.table, table_settings.name) if has_rows else _without_merged_rows(stage.table)
    )
    stage_plan = planner.plan_for_mirror(table_settings, stage_mirror)
    if (
        isinstance(stage_plan, Diverged)
        and stage_plan.cause is DivergenceCause.CURSOR_EXPIRED
        and not table_settings.append_only
    ):
        restored_mirror = restore_expired_cursor(
            stage_mirror, planner.load_changelog(table_settings, stage_mirror)
        )
        if restored_mirror is not None:
            log.info(
                "cursor of the rebuild expired, continuing from the oldest snapshot",
                reason=stage_plan.message,
            )
            stage_plan = planner.plan_for_mirror(table_settings, restored_mirror)
    if isinstance(stage_plan, Diverged):
        return stage_plan
    return replace(stage_plan, is_stage=True, replaced_mirror=replaced_mirror)


def _stage_slice(
    executor: PlanExecutor,
    table_settings: TableSettings,
    mirror_table: Table,
    stage: Stage,
    replaced_mirror: Mirror | None,
) -> StagedSlice:
    """Merge one more slice into the stage."""
    if stage.previous_path is not None:  # the state row refers to a later file by now
        discard(mirror_table.io, [stage.previous_path])

    def make_plan(findings: AttemptFindings) -> Plan:
        stage_plan = _plan_stage(executor.planner, table_settings, stage, replaced_mirror)
        if isinstance(stage_plan, Diverged):
            return plan_diverged(stage_plan)
        return plan_next(limit_to_goal(executor.planner, stage_plan, stage.goal_sequence_number), findings)

    executed = executor.execute(table_settings, make_plan)
    match executed.plan:
        case Merge(table_plan=table_plan, slice=slice_):
            crash_point("stage-merged")
            saved_stage = save_stage(
                stage, index_location(mirror_table.metadata, executor.settings.index_location), slice_.events
            )
            crash_point("stage-kept")
        case Rebuild(cause=cause) | Blocked(cause=cause) as stopped:
            if cause is DivergenceCause.SOURCE_TRUNCATED and stage.path:
                discard(mirror_table.io, [stage.path])  # otherwise the next attempt continues with it
            reason = stopped.reason if isinstance(stopped, Rebuild) else str(stopped.error)
            raise Conflict(f"{table_settings.name}: rebuild restarted. {reason}")
        case _:
            raise Conflict(f"{table_settings.name}: the stage has nothing more to merge")
    backlog = backlog_after(table_plan, 1)
    of_events = saved_stage.events + backlog.events
    log.info("slice staged", replay=stage.request_id, events=saved_stage.events, of_events=of_events)
    return StagedSlice(saved_stage.events, saved_stage.path, backlog)
