"""Changes of one table row: notices, ownership, failures. docs/development/change-the-trigger.md lists the rules."""

from __future__ import annotations

from dataclasses import replace

from icemirror.errors import BLOCKING_KINDS, Kind
from icemirror.protocol.events import (
    Completed,
    Declined,
    Failed,
    HeadReadFailed,
    Noticed,
    Progressed,
    Replayed,
    ReplayRequested,
    SchedulingOptions,
    TurnEnded,
)
from icemirror.protocol.policy import Policy
from icemirror.protocol.replay import ReplayEnd, ReplayProgress
from icemirror.protocol.rows import Owner, SlotRow, SlotState, TableRow
from icemirror.protocol.slot_rules import refer_to_log
from icemirror.result import ErrorResult

UNKNOWN_TO_JOBS = (
    "the table is missing from the jobs' configuration, but is in the trigger's. Restart the trigger if the file has "
    "changed, and give remote jobs the same configuration"
)


def add_notice(row: TableRow, event: Noticed) -> TableRow:
    """Return the row with one more notice. It is a counter: a merge covers only notices that it has read (rule 1)."""
    is_first = row.dirty == row.covered
    return replace(
        with_options(row, event.options),
        dirty=row.dirty + 1,
        noticed_head=row.noticed_head if event.head is None else event.head,
        first_dirty_at=event.now if is_first else row.first_dirty_at,
        last_dirty_at=event.now,
    )


def is_new_head(row: TableRow, head: str) -> bool:
    """Return whether this head was neither noticed nor merged (rule 13).

    A noticed and covered head counts as merged even if the worker recorded another location: some catalogs give the
    trigger and the job different locations for one head.
    """
    return head != row.noticed_head and (row.dirty > row.covered or head != row.merged_head)


def needs_recheck(row: TableRow, now: float, policy: Policy) -> bool:
    """Return whether the last merge is so old that the mirror may have been dropped or rolled back since (rule 13).

    The last notice must be as old: if the jobs' clock is ahead, the time of the merge alone means nothing.
    """
    if row.dirty > row.covered or row.paused or row.completed_at is None:
        return False
    times = (row.completed_at, row.last_dirty_at)
    return all(abs(now - time) >= policy.recheck_seconds for time in times)


def with_options(row: TableRow, options: SchedulingOptions) -> TableRow:
    """Return the row with the current settings of the table."""
    if (row.group, row.min_interval_seconds) == (options.group, options.min_interval_seconds):
        return row
    return replace(row, group=options.group, min_interval_seconds=options.min_interval_seconds)


def record_head_error(row: TableRow, event: HeadReadFailed) -> TableRow:
    """Return the row with the reason why the changelog's head is unreadable; the next successful read clears it."""
    if row.look_error == event.error:
        return row
    return replace(with_options(row, event.options), look_error=event.error)


def owner_is_dead(owner: Owner, slot: SlotRow) -> bool:
    """Return whether the owner is dead. This is final: a generation never becomes active again (rule 7)."""
    return slot.state is SlotState.FREE or slot.gen != owner.gen


def worker_died_error(log_location: str) -> ErrorResult:
    """Return the error of a table whose worker died (rule 7)."""
    message = f"the job died while it merged this table{refer_to_log(log_location)}"
    return ErrorResult(kind=Kind.TRANSIENT, message=message)


def count_table_failure(
    row: TableRow, now: float, jitter: float, error: ErrorResult, policy: Policy
) -> TableRow:
    """Return the row after one more failure: it backs off, or is quarantined (rules 7, 10).

    It is quarantined at `max_failures`, or at once if a retry cannot help. A table with a pending replay is not: the
    user requested the replay, which may be the remedy.
    """
    failures = row.failures + 1
    quarantined = row.replay is None and _must_quarantine(failures, error, policy)
    wait = policy.probation_seconds if quarantined else policy.backoff(failures, jitter)
    return replace(
        row, owner=None, failures=failures, not_before=now + wait, quarantined=quarantined, error=error
    )


def _must_quarantine(failures: int, error: ErrorResult, policy: Policy) -> bool:
    return failures >= policy.max_failures or error.kind in BLOCKING_KINDS


def record_failure(row: TableRow, event: Failed, policy: Policy) -> TableRow:
    """Return the row after merging, or the replay, failed (rule 10)."""
    if row.replay is not None and row.replay.id == event.replay_id:
        updated = count_replay_failure(row, event.now, event.jitter, event.error, policy)
    elif event.replay_id is not None:
        updated = replace(row, owner=None)  # that replay was cancelled, so its failure does not count
    else:
        updated = count_table_failure(row, event.now, event.jitter, event.error, policy)
    return updated if event.run is None else replace(updated, last_run=event.run)


def count_replay_failure(
    row: TableRow, now: float, jitter: float, error: ErrorResult, policy: Policy
) -> TableRow:
    """Return the row after a failure. The last one ends the replay as failed, and merging continues (rule 17)."""
    if row.replay is None or not _must_quarantine(row.failures + 1, error, policy):
        return count_table_failure(row, now, jitter, error, policy)
    updated = end_replay(row, ReplayEnd(row.replay.id, now, "failed", row.replay.progress, error))
    return replace(updated, owner=None, failures=0, not_before=0.0, error=None)


def record_decline(row: TableRow, event: Declined, policy: Policy) -> TableRow:
    """Return the row after a worker whose configuration lacks the table: it backs off for another worker (rule 18).

    The table is blocked only if this happens again after a quarantine: during an upgrade, jobs with the old and the
    new configuration coexist, and one with the new configuration resolves it.
    """
    error = event.error or ErrorResult(kind=Kind.INVALID, message=UNKNOWN_TO_JOBS)
    is_repeated = row.error is not None and row.error.message == error.message
    if row.failures < policy.max_failures or not is_repeated:
        error = error.model_copy(update={"kind": Kind.TRANSIENT})
    return count_replay_failure(row, event.now, event.jitter, error, policy)


def request_replay(row: TableRow, event: ReplayRequested) -> TableRow:
    """Return the row with the request and without failures. It is also a notice: only its end covers it (rule 15)."""
    noticed = add_notice(row, Noticed(event.now, row.name, event.options))
    return replace(
        noticed,
        replay=event.replay,
        quarantined=False,
        failures=0,
        not_before=0.0,
        yielded_at=None,
        error=None,
    )


def end_replay(row: TableRow, end: ReplayEnd) -> TableRow:
    """Return the row without this request, if it is still pending. Its notice stays: a merge follows (rules 16, 17)."""
    if row.replay is None or row.replay.id != end.id:
        return row
    return replace(row, replay=None, last_replay=end)


def complete_replay(row: TableRow, event: Replayed) -> TableRow:
    """Return the row with the replay ended as done, and without failures (rule 17)."""
    if row.replay is None or row.replay.id != event.replay_id:
        return row
    updated = end_replay(row, ReplayEnd(event.replay_id, event.now, "done", event.progress))
    return replace(updated, failures=0, not_before=0.0, error=None)


def record_progress(row: TableRow, event: Progressed | TurnEnded) -> TableRow:
    """Return the row with the mirror's status, its backlog and the progress of a replay (rule 9)."""
    row = replace(row, position=event.mirror_status or row.position, planned=event.planned or row.planned)
    return _record_replay_progress(row, event.replay_id, event.progress)


def _record_replay_progress(
    row: TableRow, replay_id: str | None, progress: ReplayProgress | None
) -> TableRow:
    """Return the row with the progress, if the replay is still this one. Progress clears the count of failures."""
    if row.replay is None or row.replay.id != replay_id or progress is None:
        return row
    has_advanced = progress.events > (row.replay.progress.events if row.replay.progress else 0)
    failures = 0 if has_advanced else row.failures
    return replace(row, replay=replace(row.replay, progress=progress), failures=failures)


def record_completion(row: TableRow, event: Completed) -> TableRow:
    """Return the row after an empty plan: the notices read before the head are covered, later ones stay (rule 9)."""
    return replace(
        row,
        covered=event.dirty,
        merged_head=event.head,
        owner=None,
        failures=0,
        not_before=0.0,
        quarantined=False,
        error=None,
        yielded_at=None,
        completed_at=event.now,
        # The first uncovered notice arrived after `read_at`; its exact time is not stored.
        first_dirty_at=row.first_dirty_at if row.dirty == event.dirty else event.read_at,
        position=event.mirror_status or row.position,
        planned=None,
        last_run=event.run or row.last_run,
    )


def record_resume(row: TableRow, now: float) -> TableRow:
    """Return the row without pause, quarantine and failures, and with one more notice (rule 14).

    The notice is needed because the mirror may be missing without a new commit.
    """
    noticed = add_notice(row, Noticed(now, row.name, SchedulingOptions(row.group, row.min_interval_seconds)))
    return replace(
        noticed, paused=False, quarantined=False, failures=0, not_before=0.0, completed_at=None, error=None
    )
