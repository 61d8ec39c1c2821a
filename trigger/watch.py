"""The embedded trigger: looks at the heads, dispatches and recovers, again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from icemirror.errors import Exit, IcemirrorError, Invalid
from icemirror.state.rows import Rows
from icemirror.telemetry.logs import get_log
from trigger.fleet import Fleet
from trigger.idle import idle_code
from trigger.reporting import Reporting

_REFRESH_SECONDS = 30.0

log = get_log(__name__)


@dataclass
class Watch:
    """Sweeps every `poll_seconds` until it is told to stop. A job that runs then is left to finish."""

    fleet: Fleet
    reporting: Reporting
    poll_seconds: float
    until_idle: bool
    stop: threading.Event
    on_round: Callable[[Rows], None] = lambda _: None

    def run(self) -> Exit:
        """The exit code: 0 when told to stop, or when every mirror has reached its head."""
        refreshed_at: float | None = None
        while not self.stop.is_set():
            now = time.monotonic()
            if refreshed_at is None or now - refreshed_at >= _REFRESH_SECONDS:
                self._refresh()
                refreshed_at = now
            try:
                rows = self.fleet.sweep()
                self.reporting.report(rows)
            except Invalid:
                raise  # the state itself cannot be used
            except IcemirrorError as error:
                log.warning("sweep failed", reason=str(error))
            else:
                self.on_round(rows)
                names = [table.name for table in self.fleet.registry.tables]
                if self.until_idle and (code := idle_code(rows, names)) is not None:
                    return code
            self.stop.wait(self.poll_seconds)
        return Exit.DONE

    def _refresh(self) -> None:
        try:
            self.fleet.registry.refresh()
        except IcemirrorError as error:
            log.warning("looking for new changelogs failed", reason=str(error))
