"""The tables that a worker serves, discovered ones included, and the next step of each."""

from __future__ import annotations

import time

from icemirror.errors import IcemirrorError, Transient
from icemirror.protocol.events import ConfiguredTables
from icemirror.protocol.replay import Replay, ReplayStep
from icemirror.result import ErrorResult
from icemirror.settings import Settings
from icemirror.step_results import StepResult
from icemirror.telemetry.error_results import LOG_HINT, to_error_result
from icemirror.telemetry.logs import get_log
from spark_job.iceberg.catalogs import ChangelogDropped
from spark_job.rebuild.replay import replay_step
from spark_job.worker.discover import discover_tables
from spark_job.worker.wiring import build_pipeline

_DISCOVER_SECONDS = 30.0
_RETRY_SECONDS = 5.0

log = get_log(__name__)


class WorkerTables:
    """The tables of the configuration and the discovered ones; discovery runs every 30 s."""

    def __init__(self, settings: Settings, run_id: str) -> None:
        self._configured = self._discovered = settings
        self._pipeline = build_pipeline(settings, run_id)
        self._discover_at = 0.0
        self._discovery_error: ErrorResult | None = None

    def names(self) -> ConfiguredTables:
        """Return the names of the mirrors that this worker serves."""
        now = time.monotonic()
        if self._configured.discover and now >= self._discover_at:
            self._discover()
            self._discover_at = now + (_RETRY_SECONDS if self._discovery_error else _DISCOVER_SECONDS)
        return frozenset(table.name for table in self._discovered.tables)

    def discovery_error(self) -> ErrorResult | None:
        """Return why `names` may be incomplete: the last discovery failed."""
        return self._discovery_error

    def _discover(self) -> None:
        """Discover changelogs; after a failure the listed and earlier discovered tables are still served."""
        previous_error = self._discovery_error
        try:
            self._discovered, self._discovery_error = (
                discover_tables(self._configured, self._pipeline.catalogs),
                None,
            )
        except Exception as error:
            failure = to_error_result(error, LOG_HINT)
            message = f"the job's discovery failed, so the table is unknown to it: {failure.message}"
            self._discovery_error = failure.model_copy(update={"message": message})
            if self._discovery_error == previous_error:
                return
            if isinstance(error, IcemirrorError):
                log.warning("discovery failed", reason=str(error))
            else:
                log.failure("discovery failed", error)

    def replay(self, name: str, replay: Replay) -> ReplayStep:
        """Execute the next step of a replay; return its result."""
        return replay_step(self._pipeline, self._discovered.table(name), replay)

    def timer(self) -> float:
        """Return a timer in seconds that excludes Spark's start."""
        return self._pipeline.clock_seconds()

    def advance(self, name: str) -> StepResult:
        """Execute the next plan of a table; return its result. A missing changelog may be recreated: retry later."""
        try:
            return self._pipeline.advance(self._discovered.table(name))
        except ChangelogDropped as error:
            raise Transient(f"{error} The mirror is unchanged until then.") from error
