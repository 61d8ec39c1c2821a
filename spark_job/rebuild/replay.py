"""A replay merges a range of the changelog once more, slice by slice.

Only events that are strictly newer than the mirror's rows apply, and only if they are the last of all merged events of
their key. So a replay never turns a row back, wherever it begins and ends, and running it twice changes nothing. The
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
from spark_job.plan.outcome import Blocked, Merge, Plan, Rebuild, UpToDate
from spark_job.plan.slices import Slice, cut_files
from spark_job.plan.support import require_key, require_supported
from spark_job.plan.table_plan import TablePlan
from spark_job.rebuild.executor import Executor
from spark_job.rebuild.rebuild import plan_rebuild, rebuild_step

log = get_log(__name__)


class ReplayMark(BaseModel):
    """Where a replay continues: after so many files of its range.

    `standing`: icemirror's last snapshot at that time. If it is no longer in the mirror's history, the mirror was
    rolled back or the snapshot expired: the replay starts again, which costs time and does no harm.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: int
    standing: int | None


@dataclass(frozen=True)
class _Range(Merge):
    """The next slice of a range whose first `done` files are merged."""

    files: tuple[ChangelogFile, ...] = ()
    done: int = 0


def replay_step(pipeline: Executor, table: TableSettings, replay: Replay) -> ReplayStep:
    """Do the next step of a replay: one slice, or one step of a rebuild."""
    if replay.full:
        return rebuild_step(pipeline, table, replay.id, replay.progress)
    _require_key(table)
    executed = pipeline.execute(table, lambda: _plan(pipeline, pipeline.planner.require_plan(table), replay))
    match executed.plan:
        case _Range() as range_:
            return _step(range_, executed.merged, replay)
        case Blocked(error=error):
            raise error
        case Rebuild(reason=reason):
            raise Invalid(reason)
        case _:
            return ReplayStep(replay.progress or ReplayProgress(), done=True)


def plan_replay(pipeline: Executor, table: TableSettings, replay: Replay) -> ReplayPlan:
    """Return what a replay would read; changes nothing."""
    require_supported(table)
    if replay.full:
        planned = plan_rebuild(pipeline.planner, table)
        files = [file for slice_ in planned.slices for file in slice_.files]
        ends, slices = None, len(planned.slices)
    else:
        _require_key(table)
        planned = pipeline.planner.require_plan(table)
        found = find_replay_range(
            planned.changelog, str(table.changelog_id), replay, set(planned.waiting_paths)
        )
        files, ends = list(found.files), (found.snapshots[0].snapshot_id, found.snapshots[-1].snapshot_id)
        slices = len(cut_files(files, pipeline.planner.limits))
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


def _plan(pipeline: Executor, planned: TablePlan, replay: Replay) -> Plan:
    name = str(planned.settings.changelog_id)
    # Files that wait are left to the merge.
    files = find_replay_range(planned.changelog, name, replay, set(planned.waiting_paths)).files
    done = _files_done(replay, planned.mirror)
    cursor = planned.mirror.cursor if planned.mirror else None
    if cursor is None or not files[done:]:
        return UpToDate(planned)
    next_files = cut_files(files[done:], pipeline.planner.limits)[0]
    return _Range(planned, Slice(next_files, cursor), replay.id, files, done)


def _files_done(replay: Replay, mirror: Mirror | None) -> int:
    try:
        mark = ReplayMark.model_validate_json(replay.progress.mark or "" if replay.progress else "")
    except ValidationError:
        return 0
    if mirror is None or mirror.head is None:
        return 0
    ancestors = walk_ancestors(mirror.table.metadata.snapshots, mirror.head.snapshot_id)
    return mark.files if mark.standing in {one.snapshot_id for one in ancestors} else 0


def _step(range_: _Range, merged: Merged | None, replay: Replay) -> ReplayStep:
    before = replay.progress or ReplayProgress()
    after = range_.done + len(range_.slice.files)
    committed = merged.slice if merged else None
    changed = committed.inserted + committed.updated + committed.deleted if committed else 0
    mirror = range_.planned.mirror
    standing = committed.snapshot_id if committed else mirror.own_snapshot_id if mirror else None
    progress = ReplayProgress(
        events=_events(range_.files[:after]),
        of_events=_events(range_.files),
        changed_rows=(before.changed_rows if range_.done else 0) + changed,
        mark=ReplayMark(files=after, standing=standing).model_dump_json(),
    )
    log.info("slice replayed", events=range_.slice.events, changed_rows=changed, replay=replay.id)
    return ReplayStep(
        progress,
        done=after == len(range_.files),
        slice=committed,
        position=merged.position if merged else None,
    )


def _events(files: Sequence[ChangelogFile]) -> int:
    return sum(file.events for file in files)
