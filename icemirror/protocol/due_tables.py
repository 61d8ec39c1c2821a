"""Waiting tables, and when they are due: after the quiet period, the back-off and `min_interval`."""

from __future__ import annotations

from collections.abc import Iterable

from icemirror.errors import BLOCKING_KINDS
from icemirror.protocol.policy import Policy, trusted_deadline
from icemirror.protocol.rows import TableRow


def is_waiting(row: TableRow) -> bool:
    """Return whether the table has work, no owner, and becomes due without a user's help."""
    return row.dirty > row.covered and row.owner is None and not row.paused and not is_blocked(row)


def is_blocked(row: TableRow) -> bool:
    """Return whether only `resume` helps. A table quarantined after transient failures is retried instead."""
    return row.quarantined and (row.error is None or row.error.kind in BLOCKING_KINDS)


def due_at(row: TableRow, now: float, policy: Policy) -> float:
    """Return when a waiting table may be taken. A time too far ahead comes from a wrong clock and counts as now."""
    max_seconds = policy.probation_seconds if row.quarantined else policy.max_backoff_seconds
    retry_at = trusted_deadline(row.not_before, now, max_seconds)
    if row.quarantined:
        return retry_at
    if row.yielded_at is not None:  # a backlog waits neither for more commits nor for `min_interval`
        return max(retry_at, trusted_deadline(row.yielded_at, now, 0.0))
    if row.replay is not None:  # nor does a replay
        return max(retry_at, trusted_deadline(row.replay.requested_at, now, 0.0))
    quiet_at = min(row.last_dirty_at + policy.quiet_seconds, row.first_dirty_at + policy.max_wait_seconds)
    earliest = max(retry_at, trusted_deadline(quiet_at, now, policy.max_wait_seconds))
    if row.completed_at is None:
        return earliest
    interval = row.min_interval_seconds
    return max(earliest, trusted_deadline(row.completed_at + interval, now, interval))


def waiting_tables(
    tables: Iterable[TableRow], now: float, group: str, names: frozenset[str] | None, policy: Policy
) -> list[tuple[float, TableRow]]:
    """Return the group's waiting tables with their due times, in the order in which workers take them."""
    waiting = [
        (due_at(row, now, policy), row)
        for row in tables
        if row.group == group and is_waiting(row) and (names is None or row.name in names)
    ]
    return sorted(waiting, key=lambda item: (item[0], item[1].yielded_at is not None, item[1].name))
