"""The embedded trigger: polls the heads in every round, until it is stopped or every mirror is current."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from icemirror.errors import Exit, Invalid, exit_code, worst_exit
from icemirror.protocol.rows import Rows
from icemirror.telemetry.logs import get_log
from trigger.dispatch.dispatcher import Dispatcher
from trigger.service.rounds import RoundLoop
from trigger.status.run_reporter import RunReporter
from trigger.status.table_progress import HeadObservation, TableProgress, progress_by_table, until_idle_code

_MIN_CATALOG_TIMEOUT_SECONDS = 1.0

log = get_log(__name__)


@dataclass
class WatchLoop:
    """Sweeps every `poll_seconds` until `stop` is set. Running jobs finish."""

    dispatcher: Dispatcher
    reporter: RunReporter
    poll_seconds: float
    until_idle: bool
    stop: threading.Event
    on_round: Callable[[Rows], None] = lambda _: None
    progress_by_table: dict[str, TableProgress] = field(default_factory=dict)
    _rounds: RoundLoop = field(init=False)

    def __post_init__(self) -> None:
        timeout_seconds = max(self.poll_seconds, _MIN_CATALOG_TIMEOUT_SECONDS)
        self._rounds = RoundLoop(
            self.dispatcher, self.reporter, sweep_seconds=0.0, catalog_timeout_seconds=timeout_seconds
        )

    @property
    def problem(self) -> str:
        """Why the last round failed; empty if it did not."""
        return f"rounds: {self._rounds.problem}" if self._rounds.problem else ""

    def run(self) -> Exit:
        """Return the exit code: 0 after a stop; with `until_idle`, the worst of all tables."""
        self._rounds.refresh()
        log.info("watching", tables=len(self.dispatcher.registry.tables), poll_seconds=self.poll_seconds)
        while not self.stop.is_set():
            rows = self._rounds.run_once()
            if rows is not None:
                self.on_round(rows)
                if self.until_idle and (code := self._idle_code(rows)) is not None:
                    return code
            self.stop.wait(self.poll_seconds)
        return Exit.DONE

    def _idle_code(self, rows: Rows) -> Exit | None:
        """Return the exit code if there is nothing more to wait for."""
        registry, max_failures = self.dispatcher.registry, self.dispatcher.policy.max_failures
        observations = {
            table.name: HeadObservation(
                table.name in registry.tables_with_head, registry.failures(table) >= max_failures
            )
            for table in registry.tables
        }
        self.progress_by_table = progress_by_table(rows, observations, self.dispatcher.policy.slots)
        code = until_idle_code(self.progress_by_table)
        if registry.problem is None or code is None:
            return code
        discovery_failed = isinstance(registry.problem, Invalid) or registry.refresh_failures >= max_failures
        return worst_exit([code, exit_code(registry.problem)]) if discovery_failed else None
