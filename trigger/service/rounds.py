"""Rounds of a long-running trigger: refresh the registry, sweep or dispatch, report."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from icemirror.errors import IcemirrorError, Invalid
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import Rows, SlotState
from icemirror.telemetry.logs import get_log
from trigger.dispatch.dispatcher import Dispatcher
from trigger.dispatch.launch_times import launch_times
from trigger.service.repeated_failure import RepeatedFailure
from trigger.status.run_reporter import RunReporter

_REFRESH_SECONDS = 30.0
_REFRESH_RETRY_SECONDS = 1.0
_ACTIVE_PAUSE_SECONDS = 5.0
_IDLE_PAUSE_SECONDS = 15.0
_MIN_PAUSE_SECONDS = 0.1
_OVERDUE_PAUSE_SECONDS = 1.0

log = get_log(__name__)


@dataclass
class RoundLoop:
    """Runs one round after the other. A sweep every `sweep_seconds` finds commits that no event reported.

    `catalog_timeout_seconds`: how long a round waits for catalogs. `problem`: why the last round failed. `heartbeat` is
    called during a round, so that a long one does not count as hanging.
    """

    dispatcher: Dispatcher
    reporter: RunReporter
    sweep_seconds: float
    catalog_timeout_seconds: float = 20.0
    clock: Callable[[], float] = time.monotonic
    heartbeat: Callable[[], None] = lambda: None
    problem: str = ""
    _refresh_at: float = field(default=float("-inf"))
    _sweep_at: float = field(default=float("-inf"))
    _recovered_at: float = field(default=float("-inf"))
    _round_failure: RepeatedFailure = field(default_factory=lambda: RepeatedFailure(log, "round failed"))
    _refresh_failure: RepeatedFailure = field(
        default_factory=lambda: RepeatedFailure(log, "changelog discovery failed")
    )

    def run_once(self) -> Rows | None:
        """Run one round; return the rows afterwards, or None if the round failed."""
        try:
            self.refresh()
            rows = self._sweep() if self.clock() >= self._sweep_at else self._recover_and_dispatch()
            self.reporter.report(rows)
        except Invalid:
            raise  # the state itself cannot be used
        except IcemirrorError as error:
            self.problem = str(error)
            self._round_failure.record_failure(self.problem)
            return None
        self.problem = ""
        self._round_failure.record_success()
        return rows

    def refresh(self) -> None:
        """Discover new changelogs from time to time, sooner after a failure. A new one is swept in this round."""
        registry = self.dispatcher.registry
        if self.clock() < self._refresh_at:
            return
        old_names = registry.names()
        registry.refresh(self.catalog_timeout_seconds)
        self.heartbeat()
        if registry.problem is None:
            self._refresh_failure.record_success()
        elif registry.refresh_failures:
            self._refresh_failure.record_failure(str(registry.problem))
        retry_seconds = _REFRESH_RETRY_SECONDS * 2 ** min(registry.refresh_failures, 10)
        self._refresh_at = self.clock() + min(
            retry_seconds if registry.problem else _REFRESH_SECONDS, _REFRESH_SECONDS
        )
        if registry.names() - old_names:
            self._sweep_at = self.clock()

    def pause_seconds(self, rows: Rows | None) -> float:
        """Return how long to wait for the next round, after one that returned these rows."""
        if rows is None:
            return _ACTIVE_PAUSE_SECONDS
        now, dispatcher = self.dispatcher.clock(), self.dispatcher
        pause = _ACTIVE_PAUSE_SECONDS if _has_workers(rows) else _IDLE_PAUSE_SECONDS
        pause = min(pause, self._sweep_at - self.clock())
        for launch_at in launch_times(rows, dispatcher.registry.names(), now, dispatcher.policy):
            # What was due in this round is launched, or cannot be launched yet.
            pause = min(pause, launch_at - now if launch_at > now else _OVERDUE_PAUSE_SECONDS)
        return max(pause, _MIN_PAUSE_SECONDS)

    def _sweep(self) -> Rows:
        rows = self.dispatcher.sweep(self.catalog_timeout_seconds, self.heartbeat)
        # A catalog that did not respond hides its tables' commits: sweep again soon.
        retry_seconds = min(_REFRESH_SECONDS, self.sweep_seconds)
        self._sweep_at = self.clock() + (
            retry_seconds if self.dispatcher.registry.has_unknown_heads else self.sweep_seconds
        )
        return rows

    def _recover_and_dispatch(self) -> Rows:
        if self.clock() - self._recovered_at >= _ACTIVE_PAUSE_SECONDS:
            rows = self.dispatcher.store.load(ALL_ROWS)
            if _has_workers(rows) or any(row.owner for row in rows.tables.values()):
                self.dispatcher.recover(rows, self.heartbeat)
            self._recovered_at = self.clock()
        return self.dispatcher.dispatch(self.heartbeat)


def _has_workers(rows: Rows) -> bool:
    return any(slot.state is not SlotState.FREE for slot in rows.slots.values())
