"""A replay in a table's row: requested, running, done, failed, cancelled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from icemirror.protocol.actions import MergeTable, Released, ReplayRefused, TableLost
from icemirror.protocol.due_tables import due_at, is_waiting
from icemirror.protocol.events import (
    Completed,
    Failed,
    PauseRequested,
    Pick,
    Progressed,
    RecoverTable,
    ReplayCancelled,
    Replayed,
    ReplayRequested,
    TurnEnded,
)
from icemirror.protocol.replay import Replay, ReplayEnd, ReplayProgress
from icemirror.protocol.rows import SlotState, TableRow
from icemirror.protocol.step import Step, step
from tests.unit.icemirror.protocol.samples import (
    INVALID,
    ME,
    OPTIONS,
    POLICY,
    POSITION,
    TRANSIENT,
    dirty,
    owned,
    rows,
    slot,
)

NAME = "shop.orders"
REPLAY = Replay("r1", 5.0, from_snapshot=11)
OTHER = Replay("r2", 6.0, full=True)
HALF = ReplayProgress(events=5, of_events=10, mark="half")


def table_after(result: Step) -> TableRow:
    assert isinstance(result.row, TableRow)
    return result.row


def request(row: TableRow | None = None, replay: Replay = REPLAY, now: float = 5.0) -> Step:
    return step(rows(*([row] if row else [])), ReplayRequested(now, NAME, OPTIONS, replay), POLICY)


def test_replay_request_is_a_notice_and_due_at_once() -> None:
    row = table_after(request())
    assert (row.replay, row.dirty, row.covered) == (REPLAY, 1, 0)
    assert is_waiting(row)
    assert due_at(replace(row, min_interval_seconds=900.0, completed_at=4.0), 5.0, POLICY) == 5.0


def test_replay_request_lifts_a_quarantine_but_not_a_pause() -> None:
    stopped = dirty(quarantined=True, failures=3, not_before=99.0, error=INVALID, paused=True)
    row = table_after(request(stopped))
    assert (row.quarantined, row.failures, row.not_before, row.error, row.paused) == (
        False,
        0,
        0.0,
        None,
        True,
    )
    assert not is_waiting(row)


def test_second_request_is_refused_and_a_repeated_one_changes_nothing() -> None:
    waiting = table_after(request())
    assert request(waiting, OTHER) == Step(None, (ReplayRefused(REPLAY),))
    assert request(waiting) == Step(None)


def test_owner_receives_the_replay() -> None:
    picked = step(rows(table_after(request()), slot(SlotState.RUNNING)), Pick(9.0, ME), POLICY)
    assert picked.actions == (MergeTable(NAME, 1, REPLAY),)
    requested_meanwhile = owned(replay=REPLAY)
    assert step(rows(requested_meanwhile), Progressed(9.0, ME, NAME), POLICY).actions == (
        MergeTable(NAME, 1, REPLAY),
    )


@pytest.mark.parametrize("kind", [Progressed, TurnEnded])
def test_progress_is_recorded_only_for_its_request(kind: type) -> None:
    event = kind(9.0, ME, NAME, replay_id="r1", progress=HALF)
    row = table_after(step(rows(owned(replay=REPLAY)), event, POLICY))
    assert row.replay == replace(REPLAY, progress=HALF)
    assert step(rows(owned(replay=OTHER)), event, POLICY).row is None


def test_progress_of_a_replay_resets_its_failures() -> None:
    failed = owned(replay=REPLAY, failures=2)
    event = Progressed(9.0, ME, NAME, replay_id="r1", progress=HALF)
    row = table_after(step(rows(failed), event, POLICY))
    assert row.failures == 0
    stuck = replace(row, failures=2)
    assert step(rows(stuck), event, POLICY).row is None


def test_completed_replay_leaves_the_row_and_the_merge_continues() -> None:
    failing = owned(replay=REPLAY, failures=1, error=TRANSIENT)
    result = step(rows(failing), Replayed(9.0, ME, NAME, "r1", HALF, POSITION), POLICY)
    row = table_after(result)
    assert (row.replay, row.last_replay) == (None, ReplayEnd("r1", 9.0, "done", HALF))
    assert (row.failures, row.error, row.position) == (0, None, POSITION)
    assert result.actions == (MergeTable(NAME, 1),)
    assert row.dirty > row.covered


def test_report_of_another_request_ends_no_replay() -> None:
    result = step(rows(owned(replay=OTHER)), Replayed(9.0, ME, NAME, "r1"), POLICY)
    assert (result.row, result.actions) == (None, (MergeTable(NAME, 1, OTHER),))
    assert step(rows(dirty(replay=OTHER)), Replayed(9.0, ME, NAME, "r2"), POLICY).actions == (TableLost(),)


def test_empty_plan_does_not_cover_a_later_request() -> None:
    busy = owned()
    row = table_after(request(busy))
    row = table_after(step(rows(row), Completed(9.0, ME, NAME, 1, 4.0, "h"), POLICY))
    assert (row.replay, row.dirty, row.covered) == (REPLAY, 2, 1)


def test_pause_releases_the_table_and_keeps_the_replay() -> None:
    row = table_after(step(rows(owned(replay=REPLAY)), PauseRequested(8.0, NAME), POLICY))
    result = step(rows(row), Progressed(9.0, ME, NAME, replay_id="r1", progress=HALF), POLICY)
    row = table_after(result)
    assert result.actions == (Released(),)
    assert (row.owner, row.replay) == (None, replace(REPLAY, progress=HALF))


def test_transient_failure_is_retried_and_the_last_one_ends_only_the_replay() -> None:
    row = owned(replay=replace(REPLAY, progress=HALF))
    for failures in range(1, POLICY.max_failures):
        row = table_after(step(rows(row), Failed(9.0, ME, NAME, TRANSIENT, 0.5, None, "r1"), POLICY))
        assert (row.failures, row.quarantined, row.not_before > 9.0) == (failures, False, True)
        assert row.replay is not None
        row = replace(row, owner=ME.owner)
    row = table_after(step(rows(row), Failed(9.0, ME, NAME, TRANSIENT, 0.5, None, "r1"), POLICY))
    assert (row.replay, row.last_replay) == (None, ReplayEnd("r1", 9.0, "failed", HALF, TRANSIENT))
    assert (row.failures, row.quarantined, row.owner, row.not_before) == (0, False, None, 0.0)
    assert is_waiting(row)


def test_blocking_error_ends_the_replay_at_once_and_merging_continues() -> None:
    row = table_after(
        step(rows(owned(replay=REPLAY)), Failed(9.0, ME, NAME, INVALID, 0.5, None, "r1"), POLICY)
    )
    assert (row.replay, row.quarantined, row.error) == (None, False, None)
    assert row.last_replay == ReplayEnd("r1", 9.0, "failed", None, INVALID)
    assert is_waiting(row)


def test_failed_merge_before_a_replay_does_not_quarantine_the_table() -> None:
    row = table_after(step(rows(owned(replay=REPLAY)), Failed(9.0, ME, NAME, INVALID, 0.5), POLICY))
    assert (row.replay, row.quarantined, row.failures) == (REPLAY, False, 1)


def test_dead_worker_counts_as_a_failure_of_the_replay() -> None:
    row = owned(replay=REPLAY, failures=POLICY.max_failures - 1)
    row = table_after(step(rows(row), RecoverTable(9.0, NAME, 0.5), POLICY))
    assert (row.replay, row.quarantined, row.failures) == (None, False, 0)
    assert row.last_replay is not None
    assert row.last_replay.outcome == "failed"


def test_replay_is_cancelled_by_its_id() -> None:
    row = owned(replay=replace(REPLAY, progress=HALF))
    assert step(rows(row), ReplayCancelled(9.0, NAME, "r2"), POLICY).row is None
    row = table_after(step(rows(row), ReplayCancelled(9.0, NAME, "r1"), POLICY))
    assert (row.replay, row.last_replay) == (None, ReplayEnd("r1", 9.0, "cancelled", HALF))
    reported = step(rows(row), Progressed(9.5, ME, NAME, replay_id="r1", progress=HALF), POLICY)
    assert reported.actions == (MergeTable(NAME, 1),)


def test_failure_of_a_cancelled_replay_does_not_count() -> None:
    row = table_after(step(rows(owned(replay=REPLAY)), ReplayCancelled(9.0, NAME, "r1"), POLICY))
    row = table_after(step(rows(row), Failed(9.5, ME, NAME, INVALID, 0.5, None, "r1"), POLICY))
    assert (row.owner, row.quarantined, row.failures, row.error) == (None, False, 0, None)
    assert row.dirty > row.covered
