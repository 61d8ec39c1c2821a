"""When there is something to launch next."""

from __future__ import annotations

import time
from collections.abc import Callable

from icemirror.state.eligibility import due_at, waits
from icemirror.state.policy import Policy
from icemirror.state.reads import EVERYTHING
from icemirror.state.rows import Rows, SlotState
from trigger.fleet import Fleet


def next_launch_at(rows: Rows, names: frozenset[str], now: float, policy: Policy) -> float | None:
    """When the first of the waiting tables may be taken for which no worker is there to take it."""
    served = {slot.id.group for slot in rows.slots.values() if slot.state is not SlotState.FREE}
    waiting = (
        row for row in rows.tables.values() if row.name in names and waits(row) and row.group not in served
    )
    return min((due_at(row, now, policy) for row in waiting), default=None)


def dispatch(fleet: Fleet) -> Rows:
    """Launches what is wanted now; the rows before that."""
    rows = fleet.store.load(EVERYTHING)
    for group in sorted(fleet.registry.groups):
        fleet.dispatch(group, rows)
    return rows


def dispatch_when_due(fleet: Fleet, most_seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """The same, and waits for what has its quiet period still to pass, but not longer than this."""
    ends_at = fleet.clock() + most_seconds
    names = frozenset(table.name for table in fleet.registry.tables)
    while True:
        rows, now = dispatch(fleet), fleet.clock()
        at = next_launch_at(rows, names, now, fleet.policy)
        if at is None or at <= now or at > ends_at:
            return
        sleep(at - now)
