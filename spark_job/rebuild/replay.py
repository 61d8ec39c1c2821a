"""A replay merges a range of the changelog once more, slice by slice.

Only events that are strictly newer than the mirror's rows apply, and only if they are the last of all merged events of
their key. So a replay never reverts a row, wherever it begins and ends, and running it twice changes nothing. The
cursor stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from icemirror.errors import Invalid
from icemirror.protocol.replay import Replay, ReplayProgress, ReplayStep
from icemirror.result import Merged, ReplayPlan
from icemirror.settings import TableSettings
from icemirror.telemetry.logs import get_log
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.replay_range import find_replay_range
from spark_job.iceberg.ancestry import walk_ancestors
from spark_job.iceberg.mirror import Mirror
from spark_job.plan.key_change import require_key
from spark_job.plan.plans import Blocked, Merge, Plan, Rebuild, UpToDate
from spark_job.plan.slices import Slice, cut_files
from spark_job.plan.table_plan import TablePlan
from spark_job.rebuild.executor import Executor
from spark_job.rebuild.rebuild import plan_rebuild, rebuild_step

log = get_log(__name__)


class ReplayResumePoint(BaseModel):
    """Where a replay continues: after so many files of its range.

    `standing`: icemirror's last snapshot at that time. If it is no longer in the mirror's history, the mirror was
    rolled back or the snapshot expired: the replay then restarts, which is safe.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: int
    standing: int | None


@dataclass(frozen=True)
class _MergeReplaySlice(Merge):
    """The next slice of a range whose first `done` files are merged."""

    files: tuple[ChangelogFile, ...] = ()
    done: int = 0


def replay_step(executor: Executor, table: TableSettings, replay: Replay) -> ReplayStep:
    """Do the next step of a replay: one slice, or one step of a rebuild."""
    if replay.full:
        return rebuild_step(executor, table, replay.id, replay.progress)
    _require_key(table)
    executed = executor.execute(table, lambda: _plan(executor, executor.planner.require_plan(table), replay))
    match executed.plan:
        case _MergeReplaySlice() as plan:
            return _step(plan, executed.merged, replay)
        case Blocked(error=error):
            raise error
        case Rebuild(reason=reason):
            raise Invalid(reason)
        case _:
            return ReplayStep(replay.progress or ReplayProgress(), done=True)


def plan_replay(executor: Executor, table: TableSettings, replay: Replay) -> ReplayPlan:
    """Return what a replay would read; changes nothing."""
    if replay.full:
        table_plan = plan_rebuild(executor.planner, table)
        files = [file for slice_ in table_plan.slices for file in slice_.files]
        ends, slices = None, len(table_plan.slices)
    else:
        _require_key(table)
        table_plan = executor.planner.require_plan(table)
        found = find_replay_range(
            table_plan.changelog, str(table.changelog_id), replay, set(table_plan.waiting_paths)
        )
        files, ends = list(found.files), (found.snapshots[0].snapshot_id, found.snapshots[-1].snapshot_id)
        slices = len(cut_files(files, executor.planner.limits))
    return ReplayPlan(
        table=table.name,
        full=replay.full,
        from_snapshot=ends[0] if ends else None,
        to_snapshot=ends[1] if ends else None,
        snapshots=len({file.snapshot_id for file in files}),
        files=len(files),
        bytes=sum(file.bytes for file in files),
        events=_events(files),
        slices=slices,
    )


def _require_key(table: TableSettings) -> None:
    """Refuse tables without a key: a replayed event is indistinguishable from a new one that is equal."""
    require_key(
        table,
        "so merging a part of its changelog again would duplicate its rows. `--full` rebuilds the whole table.",
    )


def _plan(executor: Executor, table_plan: TablePlan, replay: Replay) -> Plan:
    name = str(table_plan.settings.changelog_id)
    # The merge handles waiting files.
    files = find_replay_range(table_plan.changelog, name, replay, set(table_plan.waiting_paths)).files
    files_done = _files_done(replay, table_plan.mirror)
    cursor = table_plan.mirror.cursor if table_plan.mirror else None
    if cursor is None or not files[files_done:]:
        return UpToDate(table_plan)
    next_files = cut_files(files[files_done:], executor.planner.limits)[0]
    return _MergeReplaySlice(table_plan, Slice(next_files, cursor), replay.id, files, files_done)


def _files_done(replay: Replay, mirror: Mirror | None) -> int:
    try:
        resume_point = ReplayResumePoint.model_validate_json(
            replay.progress.mark or "" if replay.progress else ""
        )
    except ValidationError:
        return 0
    if mirror is None or mirror.head is None:
        return 0
    ancestors = walk_ancestors(mirror.table.metadata.snapshots, mirror.head.snapshot_id)
    return (
        resume_point.files if resume_point.standing in {snapshot.snapshot_id for snapshot in ancestors} else 0
    )


def _step(plan: _MergeReplaySlice, merged: Merged | None, replay: Replay) -> ReplayStep:
    before = replay.progress or ReplayProgress()
    after = plan.done + len(plan.slice.files)
    committed = merged.slice if merged else None
    changed = committed.inserted + committed.updated + committed.deleted if committed else 0
    mirror = plan.table_plan.mirror
    standing = committed.snapshot_id if committed else mirror.icemirror_snapshot_id if mirror else None
    progress = ReplayProgress(
        events=_events(plan.files[:after]),
        of_events=_events(plan.files),
        changed_rows=(before.changed_rows if plan.done else 0) + changed,
        mark=ReplayResumePoint(files=after, standing=standing).model_dump_json(),
    )
    log.info("slice replayed", events=plan.slice.events, changed_rows=changed, replay=replay.id)
    return ReplayStep(
        progress,
        done=after == len(plan.files),
        slice=committed,
        position=merged.position if merged else None,
    )


def _events(files: Sequence[ChangelogFile]) -> int:
    return sum(file.events for file in files)
