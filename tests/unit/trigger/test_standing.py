"""How all tables stand, in the few numbers of a line in the log."""

from __future__ import annotations

from icemirror.state.rows import RunSummary, TableRow
from trigger.standing import LATE_SECONDS, standing

NOW = 10_000.0


def turn(seconds: float, ended_at: float) -> RunSummary:
    return RunSummary("r", ended_at - seconds, ended_at, "merged", 1)


def test_the_longest_lag_and_the_longest_turn_of_late() -> None:
    rows = [
        TableRow("a", dirty=2, covered=1, first_dirty_at=NOW - 7, last_run=turn(30, NOW - 5)),
        TableRow("b", dirty=2, covered=1, first_dirty_at=NOW - 90, paused=True, last_run=turn(12, NOW - 5)),
        TableRow("c", quarantined=True, last_run=turn(5000, NOW - LATE_SECONDS)),
        TableRow("d"),
    ]
    assert standing(rows, NOW) == {
        "tables": 4, "waiting": 1, "quarantined": 1, "turn_seconds": 30, "lag_seconds": 7,
    }  # fmt: skip


def test_nothing_stands_at_nothing() -> None:
    assert set(standing([], NOW).values()) == {0}


def test_a_notice_by_a_clock_that_is_ahead_is_no_lag_below_nothing() -> None:
    assert standing([TableRow("a", dirty=1, first_dirty_at=NOW + 50)], NOW)["lag_seconds"] == 0
