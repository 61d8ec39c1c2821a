"""Changes of one slot row: launching, leases, recovery. docs/development/change-the-trigger.md lists the rules."""

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


def refer_to_log(log_location: str) -> str:
    """Return the end of an error message: the location of the job's output."""
    return f"; see {log_location}" if log_location else "; see the job's log"


def holds_slot(row: SlotRow, worker: WorkerId) -> bool:
    """Return whether this worker holds the slot."""
    return row.state in ACTIVE and row.gen == worker.gen and row.run_id == worker.run_id


def slot_to_launch(
    rows: Rows, event: Dispatch, waited_seconds: list[float], policy: Policy
) -> SlotRow | None:
    """Return the slot for another worker, if one is needed (rule 2). `waited_seconds`: of due tables, longest first.

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
    max_seconds = policy.probation_seconds if row.quarantined else policy.max_backoff_seconds
    return row.state is SlotState.FREE and trusted_deadline(row.not_before, now, max_seconds) <= now


def start_generation(row: SlotRow, now: float, tables: Sequence[str], policy: Policy) -> SlotRow:
    """Return the slot with a new generation, to be launched for these tables (rule 2).

    The first generation comes from the clock, so that a token is never reused after the state is lost.
    """
    return replace(
        row,
        state=SlotState.LAUNCHING,
        gen=row.gen + 1 if row.gen else max(1, int(now * 1000)),
        run_id=None,
        lease_until=now + policy.launch_lease_seconds,
        launched_at=now,
        wanted=tuple(tables[:MAX_WANTED]),
    )


def free_slot(row: SlotRow) -> SlotRow:
    """Return the slot without a worker. Its generation stays and fences the former worker."""
    return replace(row, state=SlotState.FREE, run_id=None, lease_until=0.0, wanted=())


def count_slot_failure(row: SlotRow, event: RecoverSlot, error: str, policy: Policy) -> SlotRow:
    """Return the slot after one more failure: it backs off, or is quarantined at `max_failures` (rules 5, 6)."""
    failures = row.failures + 1
    quarantined = failures >= policy.max_failures
    wait = policy.probation_seconds if quarantined else policy.backoff(failures, event.jitter)
    return replace(row, failures=failures, not_before=event.now + wait, quarantined=quarantined, error=error)


def clear_failures(row: SlotRow) -> SlotRow:
    """Return the slot without failures: it has had a working worker (rule 11)."""
    return replace(row, failures=0, not_before=0.0, quarantined=False, error=None)


def renew_lease(row: SlotRow, now: float, policy: Policy) -> SlotRow:
    """Return the slot with a new lease; unchanged during the first eighth of a lease, to save writes (rule 8)."""
    lease_until = now + policy.lease_seconds
    is_due = lease_until - row.lease_until > policy.lease_seconds / 8
    return replace(row, lease_until=lease_until) if is_due else row


def recover_launch(row: SlotRow, event: RecoverSlot, policy: Policy) -> tuple[SlotRow, bool]:
    """Return the slot of a worker that has not started, and whether to repeat the launch with its token (rule 5)."""
    max_seconds = policy.launch_lease_seconds if row.run_id is None else policy.lease_seconds
    expired = event.now >= trusted_deadline(row.lease_until, event.now, max_seconds)
    if row.run_id is None:
        if not expired:
            return row, False
        error = f"{NO_RUN}: {event.launch_error}" if event.launch_error else NO_RUN
        updated = count_slot_failure(row, event, error, policy)
        if updated.quarantined:  # if that run starts after all, it finds its slot free and exits
            return free_slot(updated), False
        return replace(updated, lease_until=event.now + policy.launch_lease_seconds), True
    if event.run is RunState.ENDED:
        error = ENDED_BEFORE_FIRST_TABLE + refer_to_log(event.log_location)
        return free_slot(count_slot_failure(row, event, error, policy)), False
    if expired:  # the run is queued: freeing the slot would admit a second run
        return replace(row, lease_until=event.now + policy.lease_seconds), False
    return row, False


def recover_worker(row: SlotRow, event: RecoverSlot, *, owns_table: bool, policy: Policy) -> SlotRow:
    """Return the slot, freed if its run ended or its lease expired. A table's owner fails with its table (rule 6).

    A lease that ends implausibly late is cut to the longest possible one: its worker is alive with a clock that is
    ahead, and otherwise its death would be detected only then.
    """
    if event.run is not RunState.ENDED and event.now < row.lease_until:
        if not is_implausible(row.lease_until, event.now, policy.lease_seconds):
            return row
        return replace(row, lease_until=event.now + policy.lease_seconds + SKEW_SECONDS)
    if owns_table:
        return free_slot(row)
    error = ENDED_BETWEEN_TABLES + refer_to_log(event.log_location)
    return free_slot(count_slot_failure(row, event, error, policy))
