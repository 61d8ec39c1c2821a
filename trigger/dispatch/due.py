"""When the next worker is due, and waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from icemirror.protocol.due_tables import due_at, is_waiting
from icemirror.protocol.policy import Policy
from icemirror.protocol.rows import Rows, SlotState
from trigger.dispatch.fleet import Fleet


def launch_times(rows: Rows, names: frozenset[str], now: float, policy: Policy) -> Iterator[float]:
    """Yield when each waiting table may be picked, if its group has no worker that would pick it."""
    served = {slot.id.group for slot in rows.slots.values() if slot.state is not SlotState.FREE}
    for row in rows.tables.values():
        if row.name in names and is_waiting(row) and row.group not in served:
            yield due_at(row, now, policy)


def dispatch_when_due(fleet: Fleet, max_seconds: float, sleep: Callable[[float], None] = time.sleep) -> Rows:
    """Dispatch now, and again when a quiet period ends within `max_seconds`; return the rows afterwards."""
    ends_at = fleet.clock() + max_seconds
    names = fleet.registry.names()
    while True:
        began = fleet.clock()
        rows = fleet.dispatch()
        # Tables due at the start are launched or cannot be launched yet.
        later = (at for at in launch_times(rows, names, began, fleet.policy) if at > began)
        next_at = min(later, default=None)
        if next_at is None or next_at > ends_at:
            return rows
        if (seconds := next_at - fleet.clock()) > 0:  # otherwise it became due while others were launched
            sleep(seconds)
