"""What `serve` does beside listening: dispatch what is due, look after runs, sweep now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from icemirror.errors import IcemirrorError, Invalid
from icemirror.state.reads import EVERYTHING
from icemirror.state.rows import Rows, SlotState
from icemirror.telemetry.logs import get_log
from trigger.due import dispatch, launch_times
from trigger.fleet import Fleet
from trigger.repeated import Repeated
from trigger.reporting import Reporting

_REFRESH_SECONDS = 30.0
_PATIENCE_SECONDS = 20.0
_COMPLETION_SECONDS = 5.0
_IDLE_SECONDS = 15.0
_SHORTEST_SECONDS = 0.1
_AGAIN_SECONDS = 1.0

log = get_log(__name__)


@dataclass
class Rounds:
    """One round after the other. The look at the heads every `sweep_seconds` finds what no event told.

    `problem`: why the last one could not do its work. `alive` is called on the way: one that takes long does not hang.
    """

    fleet: Fleet
    reporting: Reporting
    sweep_seconds: float
    clock: Callable[[], float] = time.monotonic
    problem: str = ""
    alive: Callable[[], None] = lambda: None
    _refresh_at: float = field(default=float("-inf"))
    _sweep_at: float = field(default=float("-inf"))
    _asked_at: float = field(default=float("-inf"))
    _failing: Repeated = field(default_factory=lambda: Repeated(log, "round failed"))
    _blind: Repeated = field(default_factory=lambda: Repeated(log, "looking for new changelogs failed"))

    def once(self) -> tuple[float, bool]:
        """One round: the seconds until the next one, and whether it could do its work."""
        try:
            self._refresh()
            rows = self._sweep() if self.clock() >= self._sweep_at else self._tend()
            self.reporting.report(rows)
        except Invalid:
            raise  # the state itself cannot be used
        except IcemirrorError as error:
            self.problem = str(error)
            self._failing.failed(self.problem)
            return _COMPLETION_SECONDS, False
        self.problem = ""
        self._failing.ended()
        return self._pause(rows), True

    def _refresh(self) -> None:
        """Looks for new changelogs; those that are found are looked at in this round."""
        registry = self.fleet.registry
        if self.clock() < self._refresh_at:
            return
        known = {table.name for table in registry.tables}
        registry.refresh(_PATIENCE_SECONDS)
        self.alive()
        self._refresh_at = self.clock() + _REFRESH_SECONDS
        if registry.problem is not None:
            self._blind.failed(str(registry.problem))
        else:
            self._blind.ended()
        if {table.name for table in registry.tables} - known:
            self._sweep_at = self.clock()

    def _sweep(self) -> Rows:
        rows = self.fleet.sweep(_PATIENCE_SECONDS, self.alive)
        registry = self.fleet.registry
        # A catalog that was away hid what its tables did meanwhile: ask again soon, not in an hour.
        self._sweep_at = self.clock() + (
            min(_REFRESH_SECONDS, self.sweep_seconds) if registry.is_blind else self.sweep_seconds
        )
        return rows

    def _tend(self) -> Rows:
        """Asks after runs now and then, and launches what is due."""
        if self.clock() - self._asked_at >= _COMPLETION_SECONDS:
            rows = self.fleet.store.load(EVERYTHING)
            if _active(rows) or any(row.owner for row in rows.tables.values()):
                self.fleet.recover(rows, self.alive)
            self._asked_at = self.clock()
        return dispatch(self.fleet, self.alive)

    def _pause(self, rows: Rows) -> float:
        now, fleet = self.fleet.clock(), self.fleet
        pause = min(_COMPLETION_SECONDS if _active(rows) else _IDLE_SECONDS, self._until(self._sweep_at))
        for at in launch_times(rows, fleet.registry.names(), now, fleet.policy):
            # What was due in this round was launched, or cannot be yet.
            pause = min(pause, at - now if at > now else _AGAIN_SECONDS)
        return max(pause, _SHORTEST_SECONDS)

    def _until(self, at: float) -> float:
        return at - self.clock()


def _active(rows: Rows) -> bool:
    return any(slot.state is not SlotState.FREE for slot in rows.slots.values())
