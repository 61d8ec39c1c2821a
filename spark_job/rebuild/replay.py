"""A replay merges a range of the changelog once more, slice by slice.

Only events that are strictly newer than the mirror's rows apply, and only if they are the last of all merged events of
their key. So a replay never reverts a row, wherever it begins and ends, and running it twice changes nothing. The
cursor stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from icemirror.errors import Invalid
from icemirror.protocol.replay import Replay, ReplayProgress, ReplayStep
from icemirror.result import ReplayPlan
from icemirror.settings import TableSettings
from icemirror.step_results import Merged
from icemirror.telemetry.logs import get_log
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.replay_range import find_replay_range
from spark_job.iceberg.ancestry import walk_ancestors
from spark_job.iceberg.mirror import Mirror
from spark_job.plan.key_change import refuse_append_only
from spark_job.plan.plans import Blocked, Merge, Plan, Rebuild, UpToDate
from spark_job.plan.slices import Slice, cut_files
from spark_job.plan.table_plan import TablePlan
from spark_job.rebuild.executor import PlanExecutor
from spark_job.rebuild.rebuild import plan_rebuild, rebuild_step

log = get_log(__name__)


class ReplayResumePoint(BaseModel):
    """Where a replay continues: after so many files of its range.

    `snapshot_id`: icemirror's last snapshot at that time, stored as `standing`. If it is no longer in the mirror's
    history, the mirror was rolled back or the snapshot expired: the replay then restarts, which is safe.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    files: int
    snapshot_id: int | None = Field(validation_alias="standing", serialization_alias="standing")


@dataclass(frozen=True)
class _MergeReplaySlice(Merge):
    """A merge of the next slice of a range, which the pipeline executes like any other.

    `range_files`: all files of the range. `files_done`: how many of them are merged.
    """

    range_files: tuple[ChangelogFile, ...] = ()
    files_done: int = 0


def replay_step(executor: PlanExecutor, table_settings: TableSettings, replay: Replay) -> ReplayStep:
    """Do the next step of a replay: one slice, or one step of a rebuild. Return its progress."""
    if replay.full:
        return rebuild_step(executor, table_settings, replay.id, replay.progress)
    _refuse_without_key(table_settings)
    executed = executor.execute(
        table_settings,
        lambda _: _plan_next_slice(executor, executor.planner.require_plan(table_settings), replay),
    )
    match executed.plan:
        case _MergeReplaySlice() as plan:
            return _to_replay_step(plan, executed.merged, replay)
        case Blocked(error=error):
            raise error
        case Rebuild(reason=reason):
            raise Invalid(reason)
        case _:
            return ReplayStep(replay.progress or ReplayProgress(), done=True)


def plan_replay(executor: PlanExecutor, table_settings: TableSettings, replay: Replay) -> ReplayPlan:
    """Return what a replay would read; changes nothing."""
    if replay.full:
        table_plan = plan_rebuild(executor.planner, table_settings)
        files = [file for slice_ in table_plan.slices for file in slice_.files]
        range_ends, slices = None, len(table_plan.slices)
    else:
        _refuse_without_key(table_settings)
        table_plan = executor.planner.require_plan(table_settings)
        replay_range = find_replay_range(
            table_plan.changelog, str(table_settings.changelog_id), replay, set(table_plan.unmerged_paths)
        )
        files, snapshots = list(replay_range.files), replay_range.snapshots
        range_ends = snapshots[0].snapshot_id, snapshots[-1].snapshot_id
        slices = len(cut_files(files, executor.planner.limits))
    return ReplayPlan(
        table=table_settings.name,
        full=replay.full,
        from_snapshot=range_ends[0] if range_ends else None,
        to_snapshot=range_ends[1] if range_ends else None,
        snapshots=len({file.snapshot_id for file in files}),
        files=len(files),
        bytes=sum(file.bytes for file in files),
        events=_count_events(files),
        slices=slices,
    )


def _refuse_without_key(table_settings: TableSettings) -> None:
    """Raise `Invalid` for a table without a key: a replayed event looks like a new one that is equal."""
    refuse_append_only(
        table_settings,
        "so merging a part of its changelog again would duplicate its rows. `--full` rebuilds the whole table.",
    )


def _plan_next_slice(executor: PlanExecutor, table_plan: TablePlan, replay: Replay) -> Plan:
    """Return the merge of the next slice; `UpToDate` if the whole range is merged."""
    name = str(table_plan.table_settings.changelog_id)
    # The merge handles waiting files.
    range_files = find_replay_range(table_plan.changelog, name, replay, set(table_plan.unmerged_paths)).files
    files_done = _count_files_done(replay, table_plan.mirror)
    cursor = table_plan.mirror.cursor if table_plan.mirror else None
    if cursor is None or not range_files[files_done:]:
        return UpToDate(table_plan)
    next_files = cut_files(range_files[files_done:], executor.planner.limits)[0]
    return _MergeReplaySlice(table_plan, Slice(next_files, cursor), replay.id, range_files, files_done)


def _count_files_done(replay: Replay, mirror: Mirror | None) -> int:
    """Return how many files of the range are merged; 0 if the mirror was rolled back since."""
    try:
        resume_point = ReplayResumePoint.model_validate_json(
            replay.progress.mark or "" if replay.progress else ""
        )
    except ValidationError:
        return 0
    if mirror is None or mirror.head is None:
        return 0
    ancestors = walk_ancestors(mirror.table.metadata.snapshots, mirror.head.snapshot_id)
    is_ancestor = resume_point.snapshot_id in {snapshot.snapshot_id for snapshot in ancestors}
    return resume_point.files if is_ancestor else 0


def _to_replay_step(plan: _MergeReplaySlice, merged: Merged | None, replay: Replay) -> ReplayStep:
    """Return the progress of the replay after a slice; `merged` is None if the slice changed nothing."""
    files_done = plan.files_done + len(plan.slice.files)
    committed = merged.slice if merged else None
    changed_rows = committed.inserted + committed.updated + committed.deleted if committed else 0
    changed_before = replay.progress.changed_rows if replay.progress and plan.files_done else 0
    mirror = plan.table_plan.mirror
    snapshot_id = committed.snapshot_id if committed else mirror.indexed_snapshot_id if mirror else None
    resume_point = ReplayResumePoint(files=files_done, snapshot_id=snapshot_id)
    progress = ReplayProgress(
        events=_count_events(plan.range_files[:files_done]),
        of_events=_count_events(plan.range_files),
        changed_rows=changed_before + changed_rows,
        mark=resume_point.model_dump_json(by_alias=True),
    )
    log.info("slice replayed", events=plan.slice.events, changed_rows=changed_rows, replay=replay.id)
    return ReplayStep(
        progress,
        done=files_done == len(plan.range_files),
        slice=committed,
        mirror_status=merged.mirror_status if merged else None,
    )


def _count_events(files: Sequence[ChangelogFile]) -> int:
    return sum(file.events for file in files)
