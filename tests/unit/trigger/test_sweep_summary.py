"""The summary of all tables in a log line."""

from __future__ import annotations

from icemirror.protocol.rows import TableRow, TurnSummary
from trigger.handler import RECENT_SECONDS, summarize_tables

NOW = 10_000.0


def turn(seconds: float, ended_at: float) -> TurnSummary:
    return TurnSummary("r", ended_at - seconds, ended_at, "merged", 1)


def test_summary_has_the_longest_lag_and_the_longest_recent_turn() -> None:
    rows = [
        TableRow("a", dirty=2, covered=1, first_dirty_at=NOW - 7, last_run=turn(30, NOW - 5)),
        TableRow("b", dirty=2, covered=1, first_dirty_at=NOW - 90, paused=True, last_run=turn(12, NOW - 5)),
        TableRow("c", quarantined=True, last_run=turn(5000, NOW - RECENT_SECONDS)),
        TableRow("d"),
    ]
    assert summarize_tables(rows, NOW) == {
        "tables": 4, "waiting": 1, "quarantined": 1, "turn_seconds": 30, "lag_seconds": 7,
    }  # fmt: skip


def test_no_tables_have_zero_everywhere() -> None:
    assert set(summarize_tables([], NOW).values()) == {0}


def test_notice_by_a_clock_that_is_ahead_is_no_negative_lag() -> None:
    assert summarize_tables([TableRow("a", dirty=1, first_dirty_at=NOW + 50)], NOW)["lag_seconds"] == 0
