"""What happens to one worker slot: taking, launching, leases, recovery. Numbers: see docs/trigger.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from icemirror.state.clocks import SKEW_SECONDS, believed, is_absurd
from icemirror.state.events import Dispatch, Holder, Recover, RunState
from icemirror.state.log_hint import see
from icemirror.state.policy import Policy
from icemirror.state.rows import Rows, SlotId, SlotRow, SlotState

ACTIVE = frozenset({SlotState.RUNNING, SlotState.LINGERING})
SOON = frozenset({SlotState.LAUNCHING, SlotState.LINGERING})
DIED_EARLY = "a job ended before it could take up work"
DIED_BETWEEN = "a job ended without being asked to, while it had no table"
NO_ANSWER = "the launcher did not say that it had started the job"
MOST_WANTED = 100  # of the tables that it was launched for a slot names so many: its row stays small


def mine(row: SlotRow, me: Holder) -> bool:
    """The worker holds its slot."""
    return row.state in ACTIVE and row.gen == me.gen and row.run_id == me.run_id


def wanted_slot(rows: Rows, event: Dispatch, waited: list[float], policy: Policy) -> SlotRow | None:
    """2. The slot for one more worker. `waited`: how long each table could have been taken, longest first.

    One worker serves a whole group. Another is wanted only where a table has waited long and there are more
    of them than workers about to look for one.
    """
    slots = [rows.slot(SlotId(event.group, index)) for index in range(policy.slots)]
    busy = [row for row in rows.of_group(event.group) if row.state is not SlotState.FREE]
    if not waited:
        return None
    if busy:
        soon = sum(row.state in SOON for row in busy)
        if waited[0] < policy.scale_out_seconds or len(waited) <= soon:
            return None
    return next((row for row in slots if _may_be_taken(row, event.now, policy)), None)


def _may_be_taken(row: SlotRow, now: float, policy: Policy) -> bool:
    longest = policy.probation_seconds if row.quarantined else policy.max_backoff_seconds
    return row.state is SlotState.FREE and believed(row.not_before, now, longest) <= now


def take(row: SlotRow, now: float, wanted: Sequence[str], policy: Policy) -> SlotRow:
    """2. A new generation, for these tables. The first is the clock's: a lost state never uses a token again."""
    return replace(
        row,
        state=SlotState.LAUNCHING,
        gen=row.gen + 1 if row.gen else max(1, int(now * 1000)),
        run_id=None,
        lease_until=now + policy.launch_lease_seconds,
        launched_at=now,
        wanted=tuple(wanted[:MOST_WANTED]),
    )


def free(row: SlotRow) -> SlotRow:
    """The slot without its worker; its generation stays behind and fences it."""
    return replace(row, state=SlotState.FREE, run_id=None, lease_until=0.0, wanted=())


def charge(row: SlotRow, event: Recover, error: str, policy: Policy) -> SlotRow:
    """5, 6. Back off; quarantine at the last failure."""
    failures = row.failures + 1
    quarantined = failures >= policy.max_failures
    wait = policy.probation_seconds if quarantined else policy.backoff(failures, event.jitter)
    return replace(row, failures=failures, not_before=event.now + wait, quarantined=quarantined, error=error)


def forgive(row: SlotRow) -> SlotRow:
    """11. The slot has had a worker that works."""
    return replace(row, failures=0, not_before=0.0, quarantined=False, error=None)


def beat(row: SlotRow, now: float, policy: Policy) -> SlotRow:
    """8. The lease is renewed, but written only when a good part of it has passed."""
    lease_until = now + policy.lease_seconds
    return (
        replace(row, lease_until=lease_until)
        if lease_until - row.lease_until > policy.lease_seconds / 8
        else row
    )


def recover_launch(row: SlotRow, event: Recover, policy: Policy) -> tuple[SlotRow, bool]:
    """5. The slot of a launch that is no worker yet, and whether to launch again, with the same token."""
    longest = policy.launch_lease_seconds if row.run_id is None else policy.lease_seconds
    expired = event.now >= believed(row.lease_until, event.now, longest)
    if row.run_id is None:
        if not expired:
            return row, False
        charged = charge(row, event, NO_ANSWER + (f": {event.log}" if event.log else ""), policy)
        if charged.quarantined:  # a run that comes to life after all finds its slot free, and exits
            return free(charged), False
        return replace(charged, lease_until=event.now + policy.launch_lease_seconds), True
    if event.run is RunState.GONE:
        return free(charge(row, event, DIED_EARLY + see(event.log), policy)), False
    if expired:  # queued: freeing the slot would let a second run in
        return replace(row, lease_until=event.now + policy.lease_seconds), False
    return row, False


def recover_worker(row: SlotRow, event: Recover, *, owns_table: bool, policy: Policy) -> SlotRow:
    """6. Free when its run is gone, or was not heard of for a lease; charged where no table will be.

    A lease that ends too late to make sense is cut to what a lease may be: its worker lives, but has a clock that is
    ahead, and once it is dead nobody would hear of it for as long.
    """
    if event.run is not RunState.GONE and event.now < row.lease_until:
        absurd = is_absurd(row.lease_until, event.now, policy.lease_seconds)
        return replace(row, lease_until=event.now + policy.lease_seconds + SKEW_SECONDS) if absurd else row
    return free(row if owns_table else charge(row, event, DIED_BETWEEN + see(event.log), policy))
