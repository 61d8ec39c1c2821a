"""Changes of table rows: notices, ownership, failures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from icemirror.protocol.actions import MergeTable, Released, StopWorker, TableLost
from icemirror.protocol.due_tables import is_blocked
from icemirror.protocol.events import (
    Completed,
    Declined,
    Failed,
    HeadRead,
    HeadReadFailed,
    Noticed,
    PauseRequested,
    Progressed,
    RecoverTable,
    ResumeRequested,
    SchedulingOptions,
    TurnEnded,
)
from icemirror.protocol.replay import Replay
from icemirror.protocol.rows import SlotRow, SlotState, TableRow
from icemirror.protocol.step import Step, step
from tests.unit.icemirror.protocol.samples import (
    INVALID,
    ME,
    OPTIONS,
    POLICY,
    POSITION,
    RUN,
    TRANSIENT,
    dirty,
    owned,
    rows,
    slot,
)

NAME = "shop.orders"


def table_after(result: Step) -> TableRow:
    assert isinstance(result.row, TableRow)
    return result.row


def test_first_notice_creates_a_row_with_the_configured_options() -> None:
    row = table_after(step(rows(), Noticed(5.0, NAME, SchedulingOptions("heavy", 60.0), "h1"), POLICY))
    assert (row.dirty, row.covered, row.noticed_head) == (1, 0, "h1")
    assert (row.group, row.min_interval_seconds) == ("heavy", 60.0)
    assert (row.first_dirty_at, row.last_dirty_at) == (5.0, 5.0)


def test_second_notice_is_counted_and_keeps_the_time_of_the_first() -> None:
    row = table_after(step(rows(dirty(at=1.0)), Noticed(9.0, NAME, OPTIONS), POLICY))
    assert (row.dirty, row.first_dirty_at, row.last_dirty_at) == (2, 1.0, 9.0)


def test_notice_after_a_merge_starts_a_new_wait() -> None:
    merged = TableRow(NAME, dirty=3, covered=3, first_dirty_at=1.0, last_dirty_at=2.0)
    assert table_after(step(rows(merged), Noticed(9.0, NAME, OPTIONS), POLICY)).first_dirty_at == 9.0


@pytest.mark.parametrize(
    ("row", "head", "noticed"),
    [
        (TableRow(NAME), "h1", True),
        (TableRow(NAME, dirty=1, covered=1, noticed_head="h1", merged_head="h1"), "h1", False),
        (TableRow(NAME, dirty=1, covered=1, noticed_head="h1", merged_head="h1"), "h2", True),
        (TableRow(NAME, dirty=1, covered=1, noticed_head="h1", merged_head="h2"), "h2", False),
        (TableRow(NAME, dirty=2, covered=1, noticed_head="h2", merged_head="h1"), "h2", False),
        (TableRow(NAME, dirty=2, covered=1, noticed_head="h2", merged_head="h1"), "h3", True),
        (TableRow(NAME, dirty=2, covered=2, noticed_head="h2", merged_head="other name of h2"), "h2", False),
        (TableRow(NAME, dirty=2, covered=2, merged_head="h1"), "h2", True),
    ],
)
def test_reading_a_head_is_a_notice_only_if_it_is_new(row: TableRow, head: str, noticed: bool) -> None:
    result = step(rows(row), HeadRead(5.0, NAME, OPTIONS, head), POLICY)
    after = result.row or row
    assert isinstance(after, TableRow)
    assert (after.dirty > row.dirty) is noticed


def test_reading_the_same_head_writes_nothing() -> None:
    row = TableRow(NAME, dirty=1, covered=1, noticed_head="h1", merged_head="h1")
    assert step(rows(row), HeadRead(5.0, NAME, OPTIONS, "h1"), POLICY) == Step(None)


@pytest.mark.parametrize(
    ("fields", "now", "noticed"),
    [
        ({"completed_at": 100.0}, 599.0, False),
        ({"completed_at": 100.0}, 600.0, True),
        ({"completed_at": 9000.0}, 600.0, True),  # written by a clock that was ahead
        (
            {"completed_at": 9000.0, "last_dirty_at": 550.0},
            600.0,
            False,
        ),  # written by a clock that still is ahead
        ({"completed_at": 100.0, "paused": True}, 600.0, False),
        ({"completed_at": 100.0, "dirty": 2}, 600.0, False),  # is waiting already
    ],
)
def test_reading_the_head_of_a_table_merged_long_ago_is_a_notice(
    fields: dict[str, float], now: float, noticed: bool
) -> None:
    merged = TableRow(NAME, dirty=1, covered=1, noticed_head="h1", merged_head="h1")
    row = replace(merged, **fields)  # type: ignore[arg-type]
    after = step(rows(row), HeadRead(now, NAME, OPTIONS, "h1"), POLICY).row or row
    assert isinstance(after, TableRow)
    assert (after.dirty > row.dirty) is noticed


def test_resume_is_a_notice_even_without_a_new_head() -> None:
    merged = TableRow(NAME, "heavy", 9.0, dirty=1, covered=1, noticed_head="h1", completed_at=4.0)
    row = table_after(step(rows(merged), ResumeRequested(5.0, NAME), POLICY))
    assert (row.dirty, row.covered, row.first_dirty_at, row.noticed_head) == (2, 1, 5.0, "h1")
    assert (row.group, row.min_interval_seconds, row.completed_at) == ("heavy", 9.0, None)


def test_reading_the_head_updates_the_rows_options() -> None:
    row = TableRow(NAME, dirty=1, covered=1, noticed_head="h1", merged_head="h1")
    after = table_after(step(rows(row), HeadRead(5.0, NAME, SchedulingOptions("heavy", 9.0), "h1"), POLICY))
    assert (after.group, after.min_interval_seconds, after.dirty) == ("heavy", 9.0, 1)


def test_head_error_is_shown_until_a_read_succeeds() -> None:
    failed = table_after(step(rows(), HeadReadFailed(1.0, NAME, OPTIONS, INVALID), POLICY))
    assert failed.look_error == INVALID
    assert step(rows(failed), HeadReadFailed(2.0, NAME, OPTIONS, INVALID), POLICY) == Step(None)
    assert table_after(step(rows(failed), HeadRead(3.0, NAME, OPTIONS, "h"), POLICY)).look_error is None


def test_table_of_a_living_worker_keeps_its_owner() -> None:
    alive = rows(owned(), slot(SlotState.RUNNING))
    assert step(alive, RecoverTable(5.0, NAME, 0.0), POLICY) == Step(None)


@pytest.mark.parametrize("dead", [slot(SlotState.FREE), slot(SlotState.RUNNING, gen=8), None])
def test_table_of_a_dead_worker_is_released_and_its_failure_counts(dead: SlotRow | None) -> None:
    stored = rows(owned(), *([dead] if dead else []))
    row = table_after(step(stored, RecoverTable(5.0, NAME, 0.0), POLICY))
    assert (row.owner, row.failures, row.covered) == (None, 1, 0)
    assert row.not_before > 5.0
    assert row.error is not None


def test_error_of_a_dead_worker_names_its_log() -> None:
    row = table_after(
        step(rows(owned(), slot(SlotState.FREE)), RecoverTable(5.0, NAME, 0.0, "/logs/a.log"), POLICY)
    )
    assert row.error is not None
    assert row.error.message == "the job died while it merged this table; see /logs/a.log"


def test_progress_stores_the_position_and_returns_the_newest_notices() -> None:
    noticed_again = replace(owned(), dirty=4)
    result = step(rows(noticed_again), Progressed(5.0, ME, NAME, POSITION), POLICY)
    assert table_after(result).position == POSITION
    assert result.actions == (MergeTable(NAME, 4),)


@pytest.mark.parametrize(
    "event",
    [
        Progressed(5.0, ME, NAME),
        TurnEnded(5.0, ME, NAME),
        Completed(5.0, ME, NAME, 1, 4.0, "h"),
        Failed(5.0, ME, NAME, TRANSIENT, 0.0),
    ],
)
def test_worker_that_lost_its_table_changes_nothing(
    event: Progressed | TurnEnded | Completed | Failed,
) -> None:
    assert step(rows(dirty()), event, POLICY) == Step(None, (TableLost(),))


def test_pause_releases_the_table_after_the_slice_without_a_failure() -> None:
    result = step(rows(owned(paused=True)), Progressed(5.0, ME, NAME), POLICY)
    assert (table_after(result).owner, table_after(result).failures) == (None, 0)
    assert result.actions == (Released(),)


def test_turn_ends_only_if_other_tables_are_due() -> None:
    alone = step(rows(owned()), TurnEnded(50.0, ME, NAME), POLICY)
    assert alone.actions == (MergeTable(NAME, 1),)
    shared = step(rows(owned(), dirty("shop.other")), TurnEnded(50.0, ME, NAME, run=RUN), POLICY)
    assert shared.actions == (Released(),)
    row = table_after(shared)
    assert (row.owner, row.yielded_at, row.covered, row.last_run) == (None, 50.0, 0, RUN)


def test_turn_does_not_end_for_tables_that_are_not_due() -> None:
    fresh = dirty("shop.other", at=49.0)
    assert step(rows(owned(), fresh), TurnEnded(50.0, ME, NAME), POLICY).actions == (MergeTable(NAME, 1),)


def test_stopping_worker_releases_its_table() -> None:
    result = step(rows(owned()), TurnEnded(50.0, ME, NAME, releases_table=True), POLICY)
    assert (table_after(result).owner, result.actions) == (None, (Released(),))


def test_completion_covers_only_the_notices_that_were_read() -> None:
    noticed_again = replace(owned(failures=2, error=TRANSIENT, quarantined=True, yielded_at=3.0), dirty=3)
    event = Completed(60.0, ME, NAME, 1, 40.0, "h9", POSITION, RUN)
    row = table_after(step(rows(noticed_again), event, POLICY))
    assert (row.covered, row.dirty, row.merged_head, row.owner) == (1, 3, "h9", None)
    assert (row.failures, row.error, row.quarantined, row.yielded_at) == (0, None, False, None)
    assert (row.first_dirty_at, row.completed_at) == (40.0, 60.0)
    assert (row.position, row.last_run) == (POSITION, RUN)


def test_failures_back_off_longer_each_time_and_then_quarantine() -> None:
    row, waits = owned(), []
    for _ in range(3):
        failed = Failed(10.0, ME, NAME, TRANSIENT, 0.5)
        row = table_after(step(rows(replace(row, owner=ME.owner)), failed, POLICY))
        waits.append(row.not_before - 10.0)
    assert waits == [3.0, 9.0, 1000.0]
    assert (row.failures, row.quarantined, row.error) == (3, True, TRANSIENT)


def test_jitter_spreads_the_waits() -> None:
    waits = {POLICY.backoff(2, jitter) for jitter in (0.0, 0.5, 0.99)}
    assert len(waits) == 3
    assert all(6.0 <= wait < 12.0 for wait in waits)
    assert POLICY.backoff(50, 0.999) < 60.0


def test_blocking_error_quarantines_at_once() -> None:
    row = table_after(step(rows(owned()), Failed(10.0, ME, NAME, INVALID, 0.5), POLICY))
    assert (row.failures, row.quarantined, row.owner) == (1, True, None)


def test_resume_resets_failures_and_pause_sets_the_flag() -> None:
    quarantined = dirty(quarantined=True, failures=3, not_before=999.0, error=INVALID, paused=True)
    row = table_after(step(rows(quarantined), ResumeRequested(5.0, NAME), POLICY))
    assert (row.quarantined, row.paused, row.failures, row.not_before, row.error) == (
        False,
        False,
        0,
        0.0,
        None,
    )
    assert table_after(step(rows(row), PauseRequested(6.0, NAME), POLICY)).paused
    assert step(rows(), ResumeRequested(5.0, NAME), POLICY) == Step(None)


DECLINED = Declined(50.0, ME, NAME, 0.0)


def test_declined_table_backs_off_then_is_blocked() -> None:
    row = dirty(at=0.0)
    for failures in (1, 2):
        result = step(rows(row, slot(SlotState.LINGERING)), DECLINED, POLICY)
        row = replace(table_after(result), not_before=0.0)
        assert (row.failures, row.quarantined, result.actions) == (failures, False, (Released(),))
        assert row.error is not None
        assert row.error.kind == "transient"
    row = table_after(step(rows(row, slot(SlotState.LINGERING)), DECLINED, POLICY))
    assert (row.failures, row.quarantined, is_blocked(row)) == (3, True, False), (
        "jobs may have different configurations"
    )
    row = replace(row, not_before=0.0)
    row = table_after(step(rows(row, slot(SlotState.LINGERING)), DECLINED, POLICY))
    assert (row.failures, row.quarantined, is_blocked(row)) == (4, True, True)


def test_first_decline_of_a_failing_table_does_not_block_it() -> None:
    row = table_after(
        step(rows(dirty(failures=2, error=TRANSIENT), slot(SlotState.LINGERING)), DECLINED, POLICY)
    )
    assert (row.failures, row.quarantined, is_blocked(row)) == (3, True, False)


def test_declined_table_that_is_owned_or_not_due_gets_no_failure() -> None:
    for row in (owned(), dirty(paused=True), dirty(not_before=60.0), TableRow(NAME)):
        assert step(rows(row, slot(SlotState.LINGERING)), DECLINED, POLICY) == Step(None, (Released(),))
    assert step(rows(dirty(), slot(SlotState.FREE)), DECLINED, POLICY) == Step(None, (StopWorker(),))


def test_replay_of_a_table_unknown_to_jobs_ends_with_a_reason() -> None:
    row = dirty(at=0.0, replay=Replay("r1", 0.0), failures=2)
    ended = table_after(step(rows(row, slot(SlotState.LINGERING)), DECLINED, POLICY))
    assert (ended.replay, ended.failures, ended.quarantined) == (None, 0, False)
    assert ended.last_replay is not None
    assert ended.last_replay.error is not None
    assert "missing from the jobs' configuration" in ended.last_replay.error.message
