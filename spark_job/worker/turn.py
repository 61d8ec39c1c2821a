"""What was done on a table, by a worker or by a command, for the state, for status and for metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from icemirror.result import (
    Advance,
    ErrorResult,
    Left,
    Merged,
    Position,
    Rebuilt,
    SliceResult,
    Staged,
    TableResult,
    UpToDate,
)
from icemirror.state.replay import ReplayStep
from icemirror.state.rows import RunSummary
from icemirror.state.store import RunResult


class Turn:
    """Slices that were committed, where the mirror stands, and what went wrong."""

    def __init__(
        self,
        table: str,
        run_id: str,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.table = table
        self.slices: list[SliceResult] = []
        self.position: Position | None = None
        self.left: Left | None = None  # by the plan of the last slice
        self.error: ErrorResult | None = None
        self.rebuilt = False
        self.rebuilt_from = 0  # events
        self.staged = False  # a part of a rebuild that goes on in another turn, maybe
        self._run_id = run_id
        self._clock, self._timer = clock, timer
        self._started_at, self._began = clock(), timer()

    def note(self, step: Advance) -> None:
        """What a step did, and where the mirror stands after it."""
        self.position, self.left = step.position or self.position, None
        match step:
            case Merged():
                self.slices.append(step.slice)
                self.left = step.left
            case Staged():
                self.left, self.staged = step.left, True
            case Rebuilt():
                self.rebuilt, self.rebuilt_from = True, self.rebuilt_from + step.events
            case UpToDate():
                pass

    def note_replay(self, step: ReplayStep) -> None:
        """The same, of a step of a replay."""
        self.position, self.left = step.position or self.position, None
        self.slices.extend([step.slice] if step.slice else [])
        if step.rebuilt:
            self.rebuilt, self.rebuilt_from = True, step.progress.events

    @property
    def outcome(self) -> Literal["merged", "up-to-date", "rebuilt", "failed"]:
        """How the turn ends, if it ends now."""
        if self.error is not None:
            return "failed"
        if self.rebuilt:
            return "rebuilt"
        return "merged" if self.slices or self.staged else "up-to-date"

    def summary(self) -> RunSummary:
        """For the table's row."""
        return RunSummary(
            run_id=self._run_id,
            started_at=self._started_at,
            ended_at=self._clock(),
            outcome=self.outcome,
            events=self.rebuilt_from + sum(part.events for part in self.slices),
        )

    def result(self) -> RunResult:
        """For the history."""
        result = TableResult(
            table=self.table,
            outcome=self.outcome,
            live_rows=self.position.live_rows if self.position else None,
            cursor=self.position.cursor if self.position else None,
            slices=tuple(self.slices),
            seconds=round(self._timer() - self._began, 4),
            error=self.error,
        )
        return RunResult(self._run_id, self._clock(), result)
