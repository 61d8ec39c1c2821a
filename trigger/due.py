"""When there is something to launch next."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from icemirror.state.eligibility import due_at, waits
from icemirror.state.policy import Policy
from icemirror.state.reads import EVERYTHING
from icemirror.state.rows import Rows, SlotState
from trigger.fleet import Fleet


def launch_times(rows: Rows, names: frozenset[str], now: float, policy: Policy) -> Iterator[float]:
    """When each of the waiting tables may be taken for which no worker is there to take it."""
    served = {slot.id.group for slot in rows.slots.values() if slot.state is not SlotState.FREE}
    for row in rows.tables.values():
        if row.name in names and waits(row) and row.group not in served:
            yield due_at(row, now, policy)


def dispatch(fleet: Fleet, alive: Callable[[], None] = lambda: None) -> Rows:
    """Launches what is wanted now; the rows before that."""
    rows = fleet.store.load(EVERYTHING)
    fleet.dispatch_all(rows, alive)
    return rows


def dispatch_when_due(fleet: Fleet, most_seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """The same, and waits for what has its quiet period still to pass, but not longer than this."""
    ends_at = fleet.clock() + most_seconds
    names = fleet.registry.names()
    while True:
        began = fleet.clock()
        rows = dispatch(fleet)
        # What was due before that was launched, or cannot be yet: nobody else waits for that.
        later = (at for at in launch_times(rows, names, began, fleet.policy) if at > began)
        at = min(later, default=None)
        if at is None or at > ends_at:
            return
        if (rest := at - fleet.clock()) > 0:  # else it became due while others were launched
            sleep(rest)
