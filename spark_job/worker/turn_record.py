"""Records what a worker or a command did with a table, for state, status and metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from icemirror.errors import IcemirrorError
from icemirror.protocol.replay import ReplayStep
from icemirror.protocol.rows import TurnSummary
from icemirror.result import ErrorResult, SliceResult, TableResult
from icemirror.step_results import (
    Backlog,
    Merged,
    MirrorStatus,
    NothingToMerge,
    Rebuilt,
    Staged,
    StepResult,
)
from icemirror.stores.store import TurnResult
from icemirror.telemetry.error_results import to_error_result
from icemirror.telemetry.logs import Log


class TurnRecord:
    """One turn: the committed slices, the status of the mirror, and the error if there was one."""

    def __init__(
        self,
        table: str,
        run_id: str,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.table = table
        self.slices: list[SliceResult] = []
        self.mirror_status: MirrorStatus | None = None
        self.backlog: Backlog | None = None
        self.error: ErrorResult | None = None
        self.rebuilt = False
        self.rebuilt_events = 0
        self.staged = False  # a rebuild that may continue in another turn
        self._run_id = run_id
        self._clock, self._timer = clock, timer
        self._started_at, self._began = clock(), timer()

    def add_step(self, step: StepResult) -> None:
        """Add the result of a step."""
        self.mirror_status, self.backlog = step.mirror_status or self.mirror_status, None
        match step:
            case Merged():
                self.slices.append(step.slice)
                self.backlog = step.backlog
            case Staged():
                self.backlog, self.staged = step.backlog, True
            case Rebuilt():
                self.rebuilt, self.rebuilt_events = True, self.rebuilt_events + step.events
            case NothingToMerge():
                pass

    def add_replay_step(self, step: ReplayStep) -> None:
        """Add the result of a step of a replay."""
        self.mirror_status, self.backlog = step.mirror_status or self.mirror_status, None
        self.slices.extend([step.slice] if step.slice else [])
        if step.rebuilt:
            self.rebuilt, self.rebuilt_events = True, step.progress.events

    def fail(
        self, error: Exception, hint: str, log: Log, report: Callable[[BaseException], None]
    ) -> ErrorResult:
        """Log and report an error of this turn; return it as the turn's result."""
        expected = isinstance(error, IcemirrorError)
        log.failure("merge failed" if expected else "merge failed unexpectedly", error)
        report(error)
        self.error = to_error_result(error, hint)
        return self.error

    @property
    def outcome(self) -> Literal["merged", "up-to-date", "rebuilt", "failed"]:
        """The outcome, if the turn ended now."""
        if self.error is not None:
            return "failed"
        if self.rebuilt:
            return "rebuilt"
        return "merged" if self.slices or self.staged else "up-to-date"

    def summary(self) -> TurnSummary:
        """Return the summary for the table's row."""
        return TurnSummary(
            run_id=self._run_id,
            started_at=self._started_at,
            ended_at=self._clock(),
            outcome=self.outcome,
            events=self.rebuilt_events + sum(slice_.events for slice_ in self.slices),
        )

    def table_result(self) -> TableResult:
        """Return the result, if the turn ended now."""
        return TableResult(
            table=self.table,
            outcome=self.outcome,
            live_rows=self.mirror_status.live_rows if self.mirror_status else None,
            cursor=self.mirror_status.cursor if self.mirror_status else None,
            slices=tuple(self.slices),
            seconds=round(self._timer() - self._began, 4),
            error=self.error,
        )

    def turn_result(self) -> TurnResult:
        """Return the result for the history."""
        return TurnResult(self._run_id, self._clock(), self.table_result())
