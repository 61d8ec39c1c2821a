"""When the next worker may be launched, and waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from icemirror.protocol.due_tables import due_at, is_waiting
from icemirror.protocol.policy import Policy
from icemirror.protocol.rows import Rows, SlotState
from trigger.dispatch.dispatcher import Dispatcher


def launch_times(rows: Rows, names: frozenset[str], now: float, policy: Policy) -> Iterator[float]:
    """Yield when each waiting table may be picked, if its group has no worker that would pick it."""
    groups_with_workers = {slot.id.group for slot in rows.slots.values() if slot.state is not SlotState.FREE}
    for row in rows.tables.values():
        if row.name in names and is_waiting(row) and row.group not in groups_with_workers:
            yield due_at(row, now, policy)


def dispatch_when_due(
    dispatcher: Dispatcher, max_seconds: float, sleep: Callable[[float], None] = time.sleep
) -> Rows:
    """Dispatch now, and again when a quiet period ends within `max_seconds`; return the rows afterwards."""
    ends_at = dispatcher.clock() + max_seconds
    names = dispatcher.registry.names()
    while True:
        started_at = dispatcher.clock()
        rows = dispatcher.dispatch()
        times = launch_times(rows, names, started_at, dispatcher.policy)
        # Tables due at the start are launched or cannot be launched yet.
        next_launch_at = min((launch_at for launch_at in times if launch_at > started_at), default=None)
        if next_launch_at is None or next_launch_at > ends_at:
            return rows
        # Otherwise it became due while others were launched.
        if (seconds := next_launch_at - dispatcher.clock()) > 0:
            sleep(seconds)
