"""Changes of one slot row: taking, launching, leases, recovery. Rules: docs/explanation/trigger.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from icemirror.protocol.events import Dispatch, RecoverSlot, RunState, WorkerId
from icemirror.protocol.policy import SKEW_SECONDS, Policy, is_implausible, trusted_deadline
from icemirror.protocol.rows import Rows, SlotId, SlotRow, SlotState

ACTIVE = frozenset({SlotState.RUNNING, SlotState.LINGERING})
ABOUT_TO_PICK = frozenset({SlotState.LAUNCHING, SlotState.LINGERING})
ENDED_BEFORE_FIRST_TABLE = "a job ended before it took a table"
ENDED_BETWEEN_TABLES = "a job ended unexpectedly between two tables"
NO_RUN = "the launcher did not confirm that the job started"
MAX_WANTED = 100  # a slot row names at most this many tables, which keeps it small


def see_log(log: str) -> str:
    """Return the end of an error message: the location of the job's output."""
    return f"; see {log}" if log else "; see the job's log"


def holds_slot(row: SlotRow, me: WorkerId) -> bool:
    """Return whether this worker holds the slot."""
    return row.state in ACTIVE and row.gen == me.gen and row.run_id == me.run_id


def slot_to_launch(
    rows: Rows, event: Dispatch, waited_seconds: list[float], policy: Policy
) -> SlotRow | None:
    """Rule 2: Return the slot for another worker, if one is needed. `waited_seconds`: of due tables, longest first.

    One worker serves a whole group. Another is launched only if a table has waited long and there are more due
    tables than workers about to take one.
    """
    slots = [rows.slot(SlotId(event.group, index)) for index in range(policy.slots)]
    busy = [row for row in rows.slots_of_group(event.group) if row.state is not SlotState.FREE]
    if not waited_seconds:
        return None
    if busy:
        about_to_pick = sum(row.state in ABOUT_TO_PICK for row in busy)
        if waited_seconds[0] < policy.scale_out_seconds or len(waited_seconds) <= about_to_pick:
            return None
    return next((row for row in slots if _is_available(row, event.now, policy)), None)


def _is_available(row: SlotRow, now: float, policy: Policy) -> bool:
    longest = policy.probation_seconds if row.quarantined else policy.max_backoff_seconds
    return row.state is SlotState.FREE and trusted_deadline(row.not_before, now, longest) <= now


def take(row: SlotRow, now: float, wanted: Sequence[str], policy: Policy) -> SlotRow:
    """Rule 2: Start a new generation for these tables.

    The first generation comes from the clock, so that a token is never reused after the state is lost.
    """
    return replace(
        row,
        state=SlotState.LAUNCHING,
        gen=row.gen + 1 if row.gen else max(1, int(now * 1000)),
        run_id=None,
        lease_until=now + policy.launch_lease_seconds,
        launched_at=now,
        wanted=tuple(wanted[:MAX_WANTED]),
    )


def free(row: SlotRow) -> SlotRow:
    """Free the slot. Its generation stays and fences the former worker."""
    return replace(row, state=SlotState.FREE, run_id=None, lease_until=0.0, wanted=())


def count_slot_failure(row: SlotRow, event: RecoverSlot, error: str, policy: Policy) -> SlotRow:
    """Rules 5, 6: Count a failure and back off; quarantine the slot at `max_failures`."""
    failures = row.failures + 1
    quarantined = failures >= policy.max_failures
    wait = policy.probation_seconds if quarantined else policy.backoff(failures, event.jitter)
    return replace(row, failures=failures, not_before=event.now + wait, quarantined=quarantined, error=error)


def clear_failures(row: SlotRow) -> SlotRow:
    """Rule 11: Forget failures: the slot has had a working worker."""
    return replace(row, failures=0, not_before=0.0, quarantined=False, error=None)


def renew_lease(row: SlotRow, now: float, policy: Policy) -> SlotRow:
    """Rule 8: Renew the lease. The row changes only after an eighth of the lease, to save writes."""
    lease_until = now + policy.lease_seconds
    is_due = lease_until - row.lease_until > policy.lease_seconds / 8
    return replace(row, lease_until=lease_until) if is_due else row


def recover_launch(row: SlotRow, event: RecoverSlot, policy: Policy) -> tuple[SlotRow, bool]:
    """Rule 5: Recover a launch whose worker has not started; also return whether to repeat it with the same token."""
    longest = policy.launch_lease_seconds if row.run_id is None else policy.lease_seconds
    expired = event.now >= trusted_deadline(row.lease_until, event.now, longest)
    if row.run_id is None:
        if not expired:
            return row, False
        failed = count_slot_failure(row, event, NO_RUN + (f": {event.log}" if event.log else ""), policy)
        if failed.quarantined:  # if that run starts after all, it finds its slot free and exits
            return free(failed), False
        return replace(failed, lease_until=event.now + policy.launch_lease_seconds), True
    if event.run is RunState.ENDED:
        error = ENDED_BEFORE_FIRST_TABLE + see_log(event.log)
        return free(count_slot_failure(row, event, error, policy)), False
    if expired:  # the run is queued: freeing the slot would admit a second run
        return replace(row, lease_until=event.now + policy.lease_seconds), False
    return row, False


def recover_worker(row: SlotRow, event: RecoverSlot, *, owns_table: bool, policy: Policy) -> SlotRow:
    """Rule 6: Free the slot if its run ended or its lease expired. Count the failure unless a table counts it.

    A lease that ends implausibly late is cut to the longest possible one: its worker is alive with a clock that is
    ahead, and otherwise its death would be detected only then.
    """
    if event.run is not RunState.ENDED and event.now < row.lease_until:
        cut = is_implausible(row.lease_until, event.now, policy.lease_seconds)
        return replace(row, lease_until=event.now + policy.lease_seconds + SKEW_SECONDS) if cut else row
    if owns_table:
        return free(row)
    return free(count_slot_failure(row, event, ENDED_BETWEEN_TABLES + see_log(event.log), policy))
