"""When a table may be taken: after waiting for more commits, after a failure, after the last merge."""

from __future__ import annotations

from collections.abc import Iterable

from icemirror.errors import NEEDS_PERSON
from icemirror.state.clocks import believed
from icemirror.state.policy import Policy
from icemirror.state.rows import TableRow


def waits(row: TableRow) -> bool:
    """There is work, and nobody does it, and nothing but time is between."""
    return row.dirty > row.covered and row.owner is None and not row.paused and not needs_person(row)


def needs_person(row: TableRow) -> bool:
    """Nothing but `resume` helps; what failed for a passing reason is tried again now and then."""
    return row.quarantined and (row.error is None or row.error.kind in NEEDS_PERSON)


def due_at(row: TableRow, now: float, policy: Policy) -> float:
    """When a waiting table may be taken. A time that no wait explains comes from a clock that was ahead: then now."""
    longest = policy.probation_seconds if row.quarantined else policy.max_backoff_seconds
    backs_off = believed(row.not_before, now, longest)
    if row.quarantined:
        return backs_off
    if row.yielded_at is not None:  # a backlog waits neither for more commits nor for `min_interval`
        return max(backs_off, believed(row.yielded_at, now, 0.0))
    if row.replay is not None:  # nor does what a person asked for
        return max(backs_off, believed(row.replay.requested_at, now, 0.0))
    settled = min(row.last_dirty_at + policy.quiet_seconds, row.first_dirty_at + policy.max_wait_seconds)
    due = max(backs_off, believed(settled, now, policy.max_wait_seconds))
    if row.completed_at is None:
        return due
    interval = row.min_interval_seconds
    return max(due, believed(row.completed_at + interval, now, interval))


def waiting(
    tables: Iterable[TableRow], now: float, group: str, names: frozenset[str] | None, policy: Policy
) -> list[tuple[float, TableRow]]:
    """The waiting tables of a group with the time at which each may be taken, the first to be taken first."""
    found = [
        (due_at(row, now, policy), row)
        for row in tables
        if row.group == group and waits(row) and (names is None or row.name in names)
    ]
    return sorted(found, key=lambda item: (item[0], item[1].yielded_at is not None, item[1].name))
