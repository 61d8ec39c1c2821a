"""What happens to one table row: notices, ownership, failures. Numbers: see docs/trigger.md."""

from __future__ import annotations

from dataclasses import replace

from icemirror.errors import NEEDS_PERSON, Kind
from icemirror.result import ErrorResult
from icemirror.state.events import (
    Completed,
    Failed,
    LookFailed,
    Noticed,
    PassedBy,
    Progressed,
    Replayed,
    ReplayRequested,
    Terms,
    TurnEnded,
)
from icemirror.state.log_hint import see
from icemirror.state.policy import Policy
from icemirror.state.replay import ReplayEnd, ReplayProgress
from icemirror.state.rows import Owner, SlotRow, SlotState, TableRow

NO_JOB_KNOWS_IT = (
    "no job knows this table: the configuration of the jobs does not have it, the trigger's does. Start the trigger "
    "anew if the file was changed since, and give jobs elsewhere the same configuration"
)


def notice(row: TableRow, event: Noticed) -> TableRow:
    """1. One more notice. Counted, not flagged: a merge covers those that it has seen, and no others."""
    fresh = row.dirty == row.covered
    return replace(
        with_terms(row, event.terms),
        dirty=row.dirty + 1,
        noticed_head=row.noticed_head if event.head is None else event.head,
        first_dirty_at=event.now if fresh else row.first_dirty_at,
        last_dirty_at=event.now,
    )


def unnoticed(row: TableRow, head: str) -> bool:
    """13. No notice stands for this head, and the mirror is not known to hold it.

    A head that was noticed and is covered has been merged, whatever name for it the worker recorded: some
    catalogs give the trigger and the job different addresses of one head.
    """
    return head != row.noticed_head and (row.dirty > row.covered or head != row.merged_head)


def overdue(row: TableRow, now: float, policy: Policy) -> bool:
    """13. Merged so long ago (or by a clock that was ahead) that the mirror may have been dropped or rolled back.

    The last notice is as long ago, too: where the clock of the jobs is ahead, every merge looks like one of another
    day.
    """
    if row.dirty > row.covered or row.paused or row.completed_at is None:
        return False
    moments = (row.completed_at, row.last_dirty_at)
    return all(abs(now - moment) >= policy.recheck_seconds for moment in moments)


def with_terms(row: TableRow, terms: Terms) -> TableRow:
    """The row with what the configuration says today."""
    if (row.group, row.min_interval_seconds) == (terms.group, terms.min_interval_seconds):
        return row
    return replace(row, group=terms.group, min_interval_seconds=terms.min_interval_seconds)


def look_failed(row: TableRow, event: LookFailed) -> TableRow:
    """The row shows why its changelog could not be looked at, until it can."""
    return (
        row
        if row.look_error == event.error
        else replace(with_terms(row, event.terms), look_error=event.error)
    )


def owner_is_dead(owner: Owner, slot: SlotRow) -> bool:
    """7. Stable: a generation never becomes active again once its slot was freed or taken anew."""
    return slot.state is SlotState.FREE or slot.gen != owner.gen


def died(log: str) -> ErrorResult:
    """7. What to say of a table whose worker is gone."""
    return ErrorResult(kind=Kind.TRANSIENT, message=f"the job ended while it merged this table{see(log)}")


def charge(row: TableRow, now: float, jitter: float, error: ErrorResult, policy: Policy) -> TableRow:
    """7, 10. Back off, and quarantine at the last failure, or at once where only a person can help.

    Not while a replay waits: that may be the cure, and somebody asked for it after having seen what is wrong.
    """
    failures = row.failures + 1
    quarantined = row.replay is None and _is_hopeless(failures, error, policy)
    wait = policy.probation_seconds if quarantined else policy.backoff(failures, jitter)
    return replace(
        row, owner=None, failures=failures, not_before=now + wait, quarantined=quarantined, error=error
    )


def _is_hopeless(failures: int, error: ErrorResult, policy: Policy) -> bool:
    return failures >= policy.max_failures or error.kind in NEEDS_PERSON


def fail(row: TableRow, event: Failed, policy: Policy) -> TableRow:
    """10. The worker could not merge the table, or not replay."""
    if row.replay is not None and row.replay.id == event.replay_id:
        charged = charge_replay(row, event.now, event.jitter, event.error, policy)
    elif event.replay_id is not None:
        charged = replace(row, owner=None)  # the request was taken back, so nothing that is wanted failed
    else:
        charged = charge(row, event.now, event.jitter, event.error, policy)
    return charged if event.run is None else replace(charged, last_run=event.run)


def charge_replay(row: TableRow, now: float, jitter: float, error: ErrorResult, policy: Policy) -> TableRow:
    """17. As `charge`, but what is hopeless is the request, which ends: the table itself is merged on."""
    if row.replay is None or not _is_hopeless(row.failures + 1, error, policy):
        return charge(row, now, jitter, error, policy)
    ended = end_replay(row, ReplayEnd(row.replay.id, now, "failed", row.replay.progress, error))
    return replace(ended, owner=None, failures=0, not_before=0.0, error=None)


def pass_by(row: TableRow, event: PassedBy, policy: Policy) -> TableRow:
    """18. A worker came for the table that does not know it. The next one may: back off, but not for ever.

    It takes a person only if it is so again once the quarantine that the last failure brought is over: there may be
    jobs of two kinds for a while, and one that knows the table makes all of it good.
    """
    error = event.error or ErrorResult(kind=Kind.INVALID, message=NO_JOB_KNOWS_IT)
    as_before = row.error is not None and row.error.message == error.message
    if row.failures < policy.max_failures or not as_before:
        error = error.model_copy(update={"kind": Kind.TRANSIENT})
    return charge_replay(row, event.now, event.jitter, error, policy)


def request_replay(row: TableRow, event: ReplayRequested) -> TableRow:
    """15. The request is a notice, too, so nothing but its end can cover it; and a person has looked at the table."""
    noticed = notice(row, Noticed(event.now, row.name, event.terms))
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
    """16, 17. The request leaves the row if it is the one that is meant; its notice stays, for the merge after it."""
    if row.replay is None or row.replay.id != end.id:
        return row
    return replace(row, replay=None, last_replay=end)


def replayed(row: TableRow, event: Replayed) -> TableRow:
    """17. What was asked for is done, so whatever failed before does not count any more."""
    if row.replay is None or row.replay.id != event.replay_id:
        return row
    ended = end_replay(row, ReplayEnd(event.replay_id, event.now, "done", event.progress))
    return replace(ended, failures=0, not_before=0.0, error=None)


def note_progress(row: TableRow, event: Progressed | TurnEnded) -> TableRow:
    """9. Where the mirror stands, what is left, and how far a replay is."""
    row = replace(row, position=event.position or row.position, planned=event.planned or row.planned)
    return _note_replay(row, event.replay_id, event.progress)


def _note_replay(row: TableRow, replay_id: str | None, progress: ReplayProgress | None) -> TableRow:
    """How far the replay is, if it is still the one that is wanted. One that gets on has not failed in a row."""
    if row.replay is None or row.replay.id != replay_id or progress is None:
        return row
    gets_on = progress.events > (row.replay.progress.events if row.replay.progress else 0)
    failures = 0 if gets_on else row.failures
    return replace(row, replay=replace(row.replay, progress=progress), failures=failures)


def complete(row: TableRow, event: Completed) -> TableRow:
    """9. Covers the notices up to the one that was read before the head was; later ones stay."""
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
        # The first notice that is not covered came after the reading; when exactly, nobody has kept.
        first_dirty_at=row.first_dirty_at if row.dirty == event.dirty else event.read_at,
        position=event.position or row.position,
        planned=None,
        last_run=event.run or row.last_run,
    )


def resume(row: TableRow, now: float) -> TableRow:
    """14. A person has looked: start afresh. A notice too: the mirror may be gone though the changelog is quiet."""
    noticed = notice(row, Noticed(now, row.name, Terms(row.group, row.min_interval_seconds)))
    return replace(
        noticed, paused=False, quarantined=False, failures=0, not_before=0.0, completed_at=None, error=None
    )
