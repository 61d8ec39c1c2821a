"""A replay: a part of the changelog that is merged already is merged once more, slice by slice.

Only what is strictly newer than what is there applies, and only if it is the last word of all that is merged. So a
replay never turns a row back, wherever it begins and ends, and doing it twice does nothing. The cursor stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from icemirror.result import ReplayPlan
from icemirror.settings import TableSettings
from icemirror.state.replay import Replay, ReplayProgress, ReplayStep
from icemirror.telemetry.logs import get_log
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.replay_range import find_range
from spark_job.iceberg.ancestors import walk_ancestors
from spark_job.iceberg.mirror import Mirror
from spark_job.pipeline import Pipeline
from spark_job.planning.plan import Slice, cut_files
from spark_job.planning.stock import Prepared
from spark_job.planning.support import require_key, require_supported
from spark_job.planning.task import Done, Task
from spark_job.replays.rebuild import rebuild_step, survey_rebuild

log = get_log(__name__)


class Mark(BaseModel):
    """Where a replay goes on: after so many files of its range, if the mirror still is what was made of them.

    `standing`: icemirror's last snapshot then. If it is not in the mirror's history any more, somebody rolled the
    mirror back, or it has expired: then the replay begins anew, which costs time and does no harm.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: int
    standing: int | None


@dataclass(frozen=True)
class _Planned(Task):
    """The next slice of a range, the first files of which are done."""

    files: tuple[ChangeFile, ...] = ()
    done: int = 0


def replay_step(pipeline: Pipeline, table: TableSettings, replay: Replay) -> ReplayStep:
    """The next slice of what was asked for, or its end."""
    if replay.full:
        return rebuild_step(pipeline, table, replay.id, replay.progress)
    _require_key(table)
    done = pipeline.carry_out(table, lambda: _plan(pipeline, pipeline.prepare(table), replay))
    return _told(done, replay)


def plan_replay(pipeline: Pipeline, table: TableSettings, replay: Replay) -> ReplayPlan:
    """What a replay would read; changes nothing."""
    require_supported(table)
    if replay.full:
        prepared = survey_rebuild(pipeline, table)
        files = [file for part in prepared.slices for file in part.files]
        ends, slices = None, len(prepared.slices)
    else:
        _require_key(table)
        prepared = pipeline.prepare(table)
        found = find_range(prepared.changelog, str(table.changelog_id), replay, _waiting(prepared))
        files, ends = list(found.files), (found.snapshots[0].snapshot_id, found.snapshots[-1].snapshot_id)
        slices = len(cut_files(files, pipeline.limits))
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
    """Without one nobody can tell an event that is merged once more from another that is like it."""
    require_key(
        table, "so merging a part of its changelog once more would double its rows. `--full` builds it anew."
    )


def _plan(pipeline: Pipeline, prepared: Prepared, replay: Replay) -> _Planned:
    name = str(prepared.settings.changelog_id)
    files = find_range(prepared.changelog, name, replay, _waiting(prepared)).files
    done = _files_done(replay, prepared.mirror)
    cursor = prepared.mirror.cursor if prepared.mirror else None
    part = None
    if cursor is not None and files[done:]:
        part = Slice(cut_files(files[done:], pipeline.limits)[0], cursor)
    return _Planned(prepared, part, replay.id, files, done)


def _waiting(prepared: Prepared) -> set[str]:
    """The files that are to be merged yet: a replay leaves them to the merge."""
    return {file.path for part in prepared.slices for file in part.files}


def _files_done(replay: Replay, mirror: Mirror | None) -> int:
    try:
        mark = Mark.model_validate_json(replay.progress.mark or "" if replay.progress else "")
    except ValidationError:
        return 0
    if mirror is None or mirror.head is None:
        return 0
    known = {
        one.snapshot_id for one in walk_ancestors(mirror.table.metadata.snapshots, mirror.head.snapshot_id)
    }
    return mark.files if mark.standing in known else 0


def _told(done: Done, replay: Replay) -> ReplayStep:
    planned, before = done.task, replay.progress or ReplayProgress()
    if not isinstance(planned, _Planned) or planned.part is None:
        return ReplayStep(before, done=True)
    after = planned.done + len(planned.part.files)
    part = done.merged.slice if done.merged else None
    changed = part.inserted + part.updated + part.deleted if part else 0
    mirror = planned.prepared.mirror
    standing = part.snapshot_id if part else mirror.standing_id if mirror else None
    progress = ReplayProgress(
        events=_events(planned.files[:after]),
        of_events=_events(planned.files),
        changed_rows=(before.changed_rows if planned.done else 0) + changed,
        mark=Mark(files=after, standing=standing).model_dump_json(),
    )
    log.info("slice replayed", events=planned.part.events, changed_rows=changed, replay=replay.id)
    return ReplayStep(
        progress,
        done=after == len(planned.files),
        slice=part,
        position=done.merged.position if done.merged else None,
    )


def _events(files: Sequence[ChangeFile]) -> int:
    return sum(file.events for file in files)
