"""The time at which a table is due."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from icemirror.protocol.due_tables import due_at, is_waiting, waiting_tables
from icemirror.protocol.policy import SKEW_SECONDS
from icemirror.protocol.replay import Replay
from icemirror.protocol.rows import TableRow
from tests.unit.icemirror.protocol.samples import INVALID, POLICY, TRANSIENT, dirty, owned


def test_table_is_due_a_quiet_period_after_the_last_notice() -> None:
    assert due_at(dirty(at=10.0), 10.0, POLICY) == 12.0


def test_table_is_due_at_the_latest_max_wait_after_the_first_notice() -> None:
    busy = TableRow("t", dirty=9, first_dirty_at=10.0, last_dirty_at=39.5)
    assert due_at(busy, 10.0, POLICY) == 40.0


def test_back_off_is_applied_after_the_quiet_period() -> None:
    assert due_at(dirty(at=10.0, not_before=77.0), 10.0, POLICY) == 77.0


def test_merges_are_not_more_frequent_than_the_interval() -> None:
    row = dirty(at=10.0, completed_at=9.0, min_interval_seconds=60.0)
    assert due_at(row, 10.0, POLICY) == 69.0


def test_first_merge_does_not_wait_for_the_interval() -> None:
    assert due_at(dirty(at=10.0, min_interval_seconds=60.0), 10.0, POLICY) == 12.0


def test_backlog_waits_for_neither_quiet_period_nor_interval() -> None:
    row = dirty(at=10.0, completed_at=9.0, min_interval_seconds=60.0, yielded_at=10.5)
    assert due_at(row, 10.0, POLICY) == 10.5


@pytest.mark.parametrize(
    "ahead",
    [
        {"not_before": 1e9},
        {"yielded_at": 1e9},
        {"completed_at": 1e9},
        {"first_dirty_at": 1e9, "last_dirty_at": 1e9},
        {"quarantined": True, "error": TRANSIENT, "not_before": 1e9},
    ],
    ids=lambda ahead: "+".join(ahead),
)
def test_clock_that_was_far_ahead_delays_no_table(ahead: dict[str, Any]) -> None:
    assert due_at(replace(dirty(at=10.0, min_interval_seconds=60.0), **ahead), 20.0, POLICY) == 20.0


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (TableRow("t"), False),
        (TableRow("t", dirty=2, covered=2), False),
        (dirty(), True),
        (dirty(paused=True), False),
        (owned(), False),
        (dirty(quarantined=True, error=INVALID), False),
        (dirty(quarantined=True, error=TRANSIENT), True),
    ],
)
def test_only_unowned_tables_with_work_wait(row: TableRow, expected: bool) -> None:
    assert is_waiting(row) is expected


def test_transient_failure_is_retried_after_probation() -> None:
    assert due_at(dirty(at=0.0, quarantined=True, error=TRANSIENT, not_before=1000.0), 10.0, POLICY) == 1000.0


def test_tables_of_the_group_are_ordered_by_waiting_time() -> None:
    late, early, other_group = dirty("b", at=5.0), dirty("c", at=1.0), dirty("a", at=0.0, group="heavy")
    found = waiting_tables([late, early, other_group], 10.0, "default", None, POLICY)
    assert [row.name for _, row in found] == ["c", "b"]
    assert [
        row.name for _, row in waiting_tables([late, early], 10.0, "default", frozenset({"b"}), POLICY)
    ] == ["b"]


@pytest.mark.parametrize(
    ("row", "longest"),
    [
        ({"not_before": 0.0}, POLICY.max_backoff_seconds),
        ({"not_before": 0.0, "quarantined": True, "error": TRANSIENT}, POLICY.probation_seconds),
        ({"last_dirty_at": -POLICY.quiet_seconds, "first_dirty_at": -2.0}, POLICY.max_wait_seconds),
        ({"completed_at": -60.0}, 60.0),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_deadline_is_accepted_up_to_its_longest_wait(row: dict[str, Any], longest: float) -> None:
    """The limit is one minute longer, because clocks may differ."""
    now, waiting = 1000.0, dirty(at=0.0, min_interval_seconds=60.0)

    def due(ahead: float) -> float:
        shifted: dict[str, Any] = {
            key: now + ahead + value if isinstance(value, float) else value for key, value in row.items()
        }
        return due_at(replace(waiting, **shifted), now, POLICY)

    assert due(longest + SKEW_SECONDS) == now + longest + SKEW_SECONDS
    assert due(longest + SKEW_SECONDS + 1.0) == now


@pytest.mark.parametrize("ahead", [{"yielded_at": 81.0}, {"replay": Replay("r", 81.0)}])
def test_past_event_with_a_future_time_counts_as_now(ahead: dict[str, Any]) -> None:
    assert due_at(replace(dirty(at=0.0), **ahead), 20.0, POLICY) == 20.0
