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
from icemirror.processes.crash_points import reach
from icemirror.protocol.replay import ReplayProgress, ReplayStep
from icemirror.settings import TableSettings
from icemirror.tables.cursor import CursorSource
from icemirror.telemetry.logs import get_log
from spark_job.changelog.truncations import is_new_truncation
from spark_job.columns.field_map import load_field_map
from spark_job.commit.retry import ConflictRetries
from spark_job.iceberg.mirror import FIELD_MAP, SOURCE, Mirror, read_mirror
from spark_job.iceberg.stage import (
    Stage,
    StageLocation,
    begin_stage,
    completed_rebuilds,
    find_stage,
    save_stage,
)
from spark_job.index.root import index_location
from spark_job.plan.delete_mode import lacks_soft_deletes, require_same_delete_mode
from spark_job.plan.divergence import Diverged, DivergenceCause
from spark_job.plan.planner import Planner
from spark_job.plan.plans import Blocked, Merge, Plan, Rebuild, plan_next
from spark_job.plan.table_plan import TablePlan, backlog_after, plan_backlog
from spark_job.plan.truncation import stop_at_truncation
from spark_job.rebuild.executor import Executor
from spark_job.rebuild.restore_cursor import restore_expired_cursor
from spark_job.rebuild.settings_fingerprint import fingerprint_settings
from spark_job.rebuild.swap_stage import swap_stage
from spark_job.storage.discard import discard
from spark_job.storage.translate_errors import translate_table_errors

log = get_log(__name__)


def rebuild_step(
    executor: Executor, table: TableSettings, request: str, progress: ReplayProgress | None
) -> ReplayStep:
    """Merge one more slice into the stage of a request, or swap it in, which happens once per request."""
    before = progress or ReplayProgress()
    retries = ConflictRetries(
        exhausted="another writer committed before each swap. Find out which other job writes to the mirror: "
        f"{table.name}"
    )
    while True:
        mirror = executor.catalogs.load_mirror(table)
        if mirror is None or mirror.current_snapshot() is None:
            return ReplayStep(before, done=True)  # the next merge builds it
        if _swap_committed(mirror, request):
            return ReplayStep(before, done=True, rebuilt=True)
        with retries:
            try:
                return advance_stage(executor, table, mirror, StageLocation(request, before.mark))
            except (CommitUnknown, Conflict):
                raise
            except IcemirrorError as error:
                # Another worker may have swapped the same stage in and removed its files.
                seen = executor.catalogs.load_mirror(table)
                if seen is None or not _swap_committed(seen, request):
                    raise
                raise Conflict(f"{table.name}: another worker swapped the stage in: {error}") from error


def advance_stage(
    executor: Executor, table: TableSettings, mirror: Table, location: StageLocation
) -> ReplayStep:
    """Merge one more slice into the stage at a location, or swap it in, fenced on the mirror's current head."""
    with translate_table_errors(table.name):
        current = _read_current(mirror, table.name)
        stage, staged = _open_stage(executor.planner, table, mirror, current, location)
        if _is_behind(executor.planner, current, staged, stage):
            return _merge_slice(executor, table, mirror, stage, current)
        position = swap_stage(executor, table, mirror, stage, staged, _followed_changelogs(mirror, current))
    after = ReplayProgress(stage.events, stage.events, changed_rows=position.live_rows)
    return ReplayStep(after, done=True, position=position, rebuilt=True)


def plan_rebuild(planner: Planner, table: TableSettings) -> TablePlan:
    """Return what a rebuild that begins now would merge; raise if the mirror cannot be rebuilt."""
    mirror = planner.catalogs.load_mirror(table)
    is_mirror = mirror is not None and FIELD_MAP in mirror.metadata.properties
    with translate_table_errors(table.name):
        table_plan = planner.plan_from(
            table, _without_merged_rows(mirror) if mirror is not None and is_mirror else None
        )
        if isinstance(table_plan, Diverged):
            raise table_plan.error
        table_plan.require_same_columns()
    return table_plan


def _swap_committed(mirror: Table, request: str) -> bool:
    """Return whether an earlier attempt committed the swap: its response may be lost, its snapshot may have expired."""
    return request in completed_rebuilds(mirror)


def _read_current(mirror: Table, name: str) -> Mirror | None:
    """The mirror as it is; None if it is unreadable, which does not prevent a rebuild."""
    if SOURCE not in mirror.metadata.properties:
        read_mirror(mirror, name)  # raises: not a mirror of icemirror
    try:
        return read_mirror(mirror, name)
    except (Invalid, Corrupt) as error:
        log.warning("mirror unreadable, rebuilding it anyway", reason=str(error))
        return None


def _open_stage(
    planner: Planner, table: TableSettings, mirror: Table, current: Mirror | None, location: StageLocation
) -> tuple[Stage, TablePlan]:
    """The stage and what it has not merged yet; a new stage if the existing one cannot be continued."""
    fingerprint = fingerprint_settings(table)
    found = find_stage(mirror, location, fingerprint)
    if found is not None:
        try:
            staged = _plan_stage(planner, table, found, current)
            if isinstance(staged, Diverged):
                log.warning("rebuild restarted", reason=staged.reason)
            else:
                _require_same_deletes(table, staged)
                if staged.mirror is not None and not staged.mirror.root_unreadable:
                    return found, staged
        except Invalid as error:
            log.warning("rebuild restarted", reason=str(error))
    return _begin_stage(planner, table, mirror, current, location)


def _begin_stage(
    planner: Planner, table: TableSettings, mirror: Table, current: Mirror | None, location: StageLocation
) -> tuple[Stage, TablePlan]:
    stage = begin_stage(mirror, location, fingerprint_settings(table))
    staged = _plan_stage(planner, table, stage, current)
    if isinstance(staged, Diverged):
        raise staged.error
    staged.require_same_columns()
    if location.by_policy and table.on_truncate == "stop":
        stop_at_truncation(staged)
    head = staged.changelog.current_snapshot()
    if head is None:
        _require_empty_allowed(staged, _followed_changelogs(mirror, current), location)
    reach("stage-begun")
    log.info("rebuild started", replay=stage.request, reason=location.reason)
    return replace(stage, goal_sequence_number=head.sequence_number or 0 if head else 0), staged


def _require_same_deletes(table: TableSettings, staged: TablePlan) -> None:
    """Refuse a stage that was built with another delete_mode."""
    require_same_delete_mode(table, staged.mirror)
    if staged.mirror is not None and lacks_soft_deletes(table, staged.mirror):
        raise Invalid(f"{table.name}: the stage lacks the deleted rows that delete_mode: soft keeps")


def _require_empty_allowed(staged: TablePlan, followed: Sequence[str], location: StageLocation) -> None:
    """Refuse to empty the mirror, unless a recreated changelog without events demands it by policy."""
    name = staged.settings.changelog_id
    if str(staged.changelog.metadata.table_uuid) == followed[-1]:
        raise Transient(f"{name}: the catalog shows it without the events that were merged from it.")
    if not location.by_policy:
        raise Invalid(f"{name}: has no events, so nothing can be built from it; the mirror is unchanged.")


def _followed_changelogs(mirror: Table, current: Mirror | None) -> list[str]:
    """The changelog that the mirror was built from; last the one it merged from, which differs after a rollback."""
    built = mirror.metadata.properties.get(SOURCE, "").rpartition(" ")[2]
    return [built, *([current.cursor.source.uuid] if current and current.cursor else ())]


def _without_merged_rows(table: Table) -> Mirror:
    """The mirror as if nothing had been merged yet."""
    return Mirror(table, None, None, 0, None, load_field_map(table.metadata.properties[FIELD_MAP]))


def _plan_stage(
    planner: Planner, table: TableSettings, stage: Stage, current: Mirror | None
) -> TablePlan | Diverged:
    """Plan what the stage has not merged yet; the changelog is loaded after the mirror was."""
    has_rows = stage.table.current_snapshot() is not None
    built = read_mirror(stage.table, table.name) if has_rows else _without_merged_rows(stage.table)
    found = planner.plan_from(table, built)
    if (
        isinstance(found, Diverged)
        and found.cause is DivergenceCause.CURSOR_EXPIRED
        and not table.append_only
    ):
        moved = restore_expired_cursor(built, planner.load_changelog(table, built))
        if moved is not None:
            log.info(
                "cursor of the rebuild expired, continuing from the oldest snapshot", reason=found.reason
            )
            found = planner.plan_from(table, moved)
    return found if isinstance(found, Diverged) else replace(found, staged=True, replaces=current)


def _is_behind(planner: Planner, current: Mirror | None, staged: TablePlan, stage: Stage) -> bool:
    """Return whether the mirror has merged something that the stage has not: a swap would undo it.

    If the mirror cannot be continued, compare with the goal and with what the mirror merged. A stale catalog response
    does not justify a swap.
    """
    waiting = {file.path for slice_ in staged.slices for file in slice_.files}
    cursor = staged.mirror.cursor if staged.mirror else None
    if cursor is None:
        return bool(staged.slices)  # even one without files: its commit is what can replace the mirror
    if waiting and _lacks_truncation(current, cursor.source):
        return True
    if current is not None and (unmerged := _unmerged_paths(planner, current, staged)) is not None:
        return not waiting <= unmerged
    merged = current.cursor.source if current and current.cursor else cursor.source
    goal = (
        max(stage.goal_sequence_number, merged.sequence_number)
        if merged.uuid == cursor.source.uuid
        else stage.goal_sequence_number
    )
    if 0 < staged.changelog.metadata.next_sequence_number() <= goal:
        raise Transient(
            f"{staged.settings.changelog_id}: the catalog returned a state before commit {goal}; a later poll may "
            "return a newer one."
        )
    return bool(waiting) and not _has_merged_commit(cursor.source, goal)


def _unmerged_paths(planner: Planner, current: Mirror, staged: TablePlan) -> set[str] | None:
    """Changelog files that the mirror has not merged; None if the mirror cannot be continued."""
    known = replace(
        current, former_changelogs=frozenset()
    )  # the user may request a rebuild from a former changelog
    try:
        backlog = plan_backlog(staged.settings, staged.changelog, known, planner.limits)
    except Invalid as error:
        log.info("mirror cannot be continued", reason=str(error))
        return None
    if isinstance(backlog, Diverged):
        log.info("mirror cannot be continued", reason=backlog.reason)
        return None
    return {file.path for slice_ in backlog[0] for file in slice_.files}


def _lacks_truncation(current: Mirror | None, source: CursorSource) -> bool:
    """Whether the stage lacks the commit with the truncation that it is built for: readers see both, or neither."""
    truncated, known = source.truncated, current.cursor.source if current and current.cursor else None
    followed = known.truncated if known and known.uuid == source.uuid else None
    if truncated is None or not is_new_truncation(truncated, followed):
        return False
    return not _has_merged_commit(source, truncated.commit)


def _has_merged_commit(source: CursorSource, sequence_number: int) -> bool:
    """Return whether the cursor's source has merged a commit. Tables of format v1 number no commits: then False."""
    return sequence_number > 0 and (
        source.sequence_number > sequence_number
        or (source.sequence_number == sequence_number and source.files_done is None)
    )


def _up_to_goal(planner: Planner, staged: TablePlan, goal: int) -> TablePlan:
    """Return the plan up to the head at which the stage was begun: the next rebuild follows later truncations."""
    if not staged.shape.truncate_operations or not goal:
        return staged
    backlog = plan_backlog(staged.settings, staged.changelog, staged.mirror, planner.limits, up_to=goal)
    cursor = staged.mirror.cursor if staged.mirror else None
    if isinstance(backlog, Diverged) or all(
        not slice_.files and slice_.cursor == cursor for slice_ in backlog[0]
    ):
        return staged  # everything up to the goal is staged
    slices, _ = backlog
    now = {file.path for slice_ in slices for file in slice_.files}
    return replace(staged, slices=slices, deferred=staged.waiting_paths - now)


def _merge_slice(
    executor: Executor, table: TableSettings, mirror: Table, stage: Stage, current: Mirror | None
) -> ReplayStep:
    """Merge one more slice into the stage."""
    if stage.previous_path is not None:  # the state row refers to a later one by now
        discard(mirror.io, [stage.previous_path])

    def make_plan() -> Plan:
        found = _plan_stage(executor.planner, table, stage, current)
        if isinstance(found, Diverged):
            return plan_next(found)
        return plan_next(_up_to_goal(executor.planner, found, stage.goal_sequence_number))

    executed = executor.execute(table, make_plan)
    match executed.plan:
        case Merge(table_plan=table_plan, slice=slice_):
            reach("stage-merged")
            kept = save_stage(
                stage, index_location(mirror.metadata, executor.settings.index_location), slice_.events
            )
            reach("stage-kept")
        case Rebuild(cause=cause) | Blocked(cause=cause) as stopped:
            if cause is DivergenceCause.SOURCE_TRUNCATED and stage.path:
                discard(mirror.io, [stage.path])  # otherwise the next attempt continues with it
            reason = stopped.reason if isinstance(stopped, Rebuild) else str(stopped.error)
            raise Conflict(f"{table.name}: rebuild restarted. {reason}")
        case _:
            raise Conflict(f"{table.name}: the stage has nothing more to merge")
    left = backlog_after(table_plan, 1)
    progress = ReplayProgress(events=kept.events, of_events=kept.events + left.events, mark=kept.path)
    log.info("slice staged", replay=stage.request, events=progress.events, of_events=progress.of_events)
    return ReplayStep(progress, done=False, left=left)
