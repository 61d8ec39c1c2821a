"""The tables of a worker, from functions."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from icemirror.protocol.events import ConfiguredTables
from icemirror.protocol.replay import Replay, ReplayStep
from icemirror.result import ErrorResult
from icemirror.step_results import StepResult


def no_replay(table: str, replay: Replay) -> ReplayStep:
    """Fail the test."""
    raise AssertionError(f"{table}: no replay is requested in this test")


def _no_error() -> ErrorResult | None:
    return None


@dataclass(frozen=True)
class FakeTables:
    """Implements `ServedTables`."""

    list_names: Callable[[], ConfiguredTables]
    advance_table: Callable[[str], StepResult]
    replay_table: Callable[[str, Replay], ReplayStep] = no_replay
    find_error: Callable[[], ErrorResult | None] = _no_error

    def names(self) -> ConfiguredTables:
        return self.list_names()

    def discovery_error(self) -> ErrorResult | None:
        return self.find_error()

    def advance(self, name: str) -> StepResult:
        return self.advance_table(name)

    def replay(self, name: str, replay: Replay) -> ReplayStep:
        return self.replay_table(name, replay)

    def timer(self) -> float:
        return time.perf_counter()
