"""The embedded trigger: looks at the heads, dispatches and recovers, again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from icemirror.errors import Exit, IcemirrorError, Invalid, exit_code, worst
from icemirror.state.rows import Rows
from icemirror.telemetry.logs import get_log
from trigger.fleet import Fleet
from trigger.idle import Sight, Standing, idle_code, standings
from trigger.repeated import Repeated
from trigger.reporting import Reporting

_REFRESH_SECONDS = 30.0
_SHORTEST_PAUSE_SECONDS = 1.0

log = get_log(__name__)


@dataclass
class Watch:
    """Sweeps every `poll_seconds` until it is told to stop. A job that runs then is left to finish.

    `problem`: why the last round could not do its work.
    """

    fleet: Fleet
    reporting: Reporting
    poll_seconds: float
    until_idle: bool
    stop: threading.Event
    on_round: Callable[[Rows], None] = lambda _: None
    standings: dict[str, Standing] = field(default_factory=dict)
    problem: str = ""
    _refresh_at: float = 0.0
    _failing: Repeated = field(default_factory=lambda: Repeated(log, "sweep failed"))
    _blind: Repeated = field(default_factory=lambda: Repeated(log, "looking for new changelogs failed"))

    @property
    def _patience_seconds(self) -> float:
        return max(self.poll_seconds, _SHORTEST_PAUSE_SECONDS)

    def run(self) -> Exit:
        """The exit code: 0 when told to stop; with `until_idle`, what every table came to."""
        self._refresh()
        log.info("watching", tables=len(self.fleet.registry.tables), poll_seconds=self.poll_seconds)
        while not self.stop.is_set():
            self._refresh()
            try:
                rows = self.fleet.sweep(patience_seconds=self._patience_seconds)
                self.reporting.report(rows)
            except Invalid:
                raise  # the state itself cannot be used
            except IcemirrorError as error:
                self.problem = f"rounds: {error}"
                self._failing.failed(str(error))
            else:
                self.problem = ""
                self._failing.ended()
                self.on_round(rows)
                if self.until_idle and (code := self._idle(rows)) is not None:
                    return code
            self.stop.wait(self.poll_seconds)
        return Exit.DONE

    def _refresh(self) -> None:
        """Looks for new changelogs now and then; sooner where that failed."""
        registry, now = self.fleet.registry, time.monotonic()
        if now < self._refresh_at:
            return
        registry.refresh(self._patience_seconds)
        if registry.problem is not None and registry.refusals:
            self._blind.failed(str(registry.problem))
        elif registry.problem is None:
            self._blind.ended()
        pause = _SHORTEST_PAUSE_SECONDS * 2**registry.refusals if registry.problem else _REFRESH_SECONDS
        self._refresh_at = now + min(pause, _REFRESH_SECONDS)

    def _idle(self, rows: Rows) -> Exit | None:
        registry, patience = self.fleet.registry, self.fleet.policy.max_failures
        sights = {
            table.name: Sight(table.name in registry.seen, registry.failures(table) >= patience)
            for table in registry.tables
        }
        self.standings = standings(rows, sights, self.fleet.policy.slots)
        code = idle_code(self.standings)
        if registry.problem is None or code is None:
            return code
        hopeless = isinstance(registry.problem, Invalid) or registry.refusals >= patience
        return worst([code, exit_code(registry.problem)]) if hopeless else None
