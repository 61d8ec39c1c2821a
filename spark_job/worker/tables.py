"""The tables that a worker serves, discovered ones included, and how each is moved on."""

from __future__ import annotations

import time

from icemirror.errors import IcemirrorError, Transient
from icemirror.failure import MORE_IN_LOG, failure_of
from icemirror.result import Advance, ErrorResult
from icemirror.settings import Settings
from icemirror.state.events import Names
from icemirror.state.replay import Replay, ReplayStep
from icemirror.telemetry.logs import get_log
from spark_job.lost_track import ChangelogAway
from spark_job.replays.replay import replay_step
from spark_job.replays.resync import advance
from spark_job.wiring import build_pipeline
from spark_job.worker.discover import discover_tables

_DISCOVER_SECONDS = 30.0
_AGAIN_SECONDS = 5.0  # after it failed

log = get_log(__name__)


class Tables:
    """The settings by table; `discover` is asked again from time to time."""

    def __init__(self, settings: Settings, run_id: str) -> None:
        self._settings = self._known = settings
        self._pipeline = build_pipeline(settings, run_id)
        self._ask_at = 0.0
        self._problem: ErrorResult | None = None

    def names(self) -> Names:
        """The mirrors that this worker may be asked to move on."""
        now = time.monotonic()
        if self._settings.discover and now >= self._ask_at:
            self._discover()
            self._ask_at = now + (_AGAIN_SECONDS if self._problem else _DISCOVER_SECONDS)
        return frozenset(table.name for table in self._known.tables)

    def blind(self) -> ErrorResult | None:
        """Why those may not be all: the last look for changelogs failed."""
        return self._problem

    def _discover(self) -> None:
        """Whatever a catalog does, the tables that are listed, and those that were found before, are served."""
        before = self._problem
        try:
            self._known, self._problem = discover_tables(self._settings, self._pipeline.catalogs), None
        except Exception as error:
            failure = failure_of(error, MORE_IN_LOG)
            said = f"the job could not look for changelogs, so it does not know this table: {failure.message}"
            self._problem = failure.model_copy(update={"message": said})
            if self._problem == before:
                return
            if isinstance(error, IcemirrorError):
                log.warning("discover failed", reason=str(error))
            else:
                log.failure("discover failed", error)

    def replay(self, name: str, replay: Replay) -> ReplayStep:
        """Does the next step of a replay."""
        return replay_step(self._pipeline, self._known.table(name), replay)

    def timer(self) -> float:
        """Seconds, in which the start of Spark takes no time."""
        return self._pipeline.clock()

    def advance(self, name: str) -> Advance:
        """Merges the next slice of a table, or does the next step of building it anew."""
        try:
            return advance(self._pipeline, self._known.table(name))
        except ChangelogAway as error:
            raise Transient(f"{error} The mirror stays as it is until then.") from error
