"""Events that a worker sends, and their order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from icemirror.protocol.actions import Action, Idle, MergeTable, Released, SlotHeld, StopWorker, TableLost
from icemirror.protocol.events import (
    Declined,
    Event,
    Failed,
    Heartbeat,
    Leave,
    Progressed,
    Replayed,
    TurnEnded,
)
from icemirror.protocol.replay import Replay, ReplayProgress
from icemirror.protocol.worker import (
    MergeConflict,
    MergedToHead,
    MergeFailed,
    Phase,
    ReplayDone,
    SliceDone,
    Worker,
    WorkerInput,
    WorkerLimits,
    after_fencing,
    after_merge,
    next_event,
    transition,
)
from tests.unit.icemirror.protocol.samples import ME, TRANSIENT

LIMITS = WorkerLimits(linger_seconds=60.0, max_slices_per_turn=2, max_conflicts=2)


def after(worker: Worker, action: Action, now: float = 0.0, *, stopping: bool = False) -> Worker:
    event = next_event(worker, WorkerInput(now, stopping=stopping), LIMITS)
    return transition(worker, event, action, LIMITS)


def sent_event(worker: Worker, *, stopping: bool = False) -> Event:
    return next_event(worker, WorkerInput(0.0, stopping=stopping), LIMITS)


def merging(dirty: int = 1) -> Worker:
    return after(Worker(ME, Phase.PICK), MergeTable("t", dirty))


def test_worker_starts_sends_a_heartbeat_picks_and_merges() -> None:
    worker = Worker(ME)
    assert worker.phase is Phase.START
    worker = after(worker, SlotHeld(7))
    assert worker.phase is Phase.HEARTBEAT
    worker = after(worker, SlotHeld(7))
    assert worker.phase is Phase.PICK
    worker = after(worker, MergeTable("t", 3), now=9.0)
    assert worker.phase is Phase.MERGE
    assert worker.turn is not None
    assert (worker.turn.table, worker.turn.dirty, worker.turn.read_at) == ("t", 3, 9.0)


@pytest.mark.parametrize(
    "phase",
    [Phase.START, Phase.HEARTBEAT, Phase.PICK, Phase.LINGER, Phase.LEAVE, Phase.RESCAN],
)
def test_fenced_worker_ends(phase: Phase) -> None:
    assert after(Worker(ME, phase), StopWorker()).phase is Phase.END


def test_notices_are_read_after_a_slice_before_the_next_plan() -> None:
    worker = after_merge(merging(), SliceDone(), LIMITS)
    assert worker.phase is Phase.REPORT
    worker = after(worker, MergeTable("t", 5), now=8.0)
    assert worker.phase is Phase.MERGE
    assert worker.turn is not None
    assert (worker.turn.dirty, worker.turn.read_at, worker.turn.slices) == (5, 8.0, 1)


def test_turn_may_end_after_some_slices_else_its_count_restarts() -> None:
    worker = after_merge(merging(), SliceDone(), LIMITS)
    assert isinstance(sent_event(worker), Progressed)
    worker = after_merge(after(worker, MergeTable("t", 1)), SliceDone(), LIMITS)
    assert isinstance(sent_event(worker), TurnEnded)
    continued = after(worker, MergeTable("t", 1))
    assert continued.turn is not None
    assert continued.turn.slices == 0
    assert after(worker, Released()).phase is Phase.HEARTBEAT


def test_empty_plan_completes_with_the_notices_read_before_it() -> None:
    worker = after_merge(merging(dirty=4), MergedToHead("h"), LIMITS)
    event = next_event(worker, WorkerInput(12.0), LIMITS)
    assert (event.dirty, event.head) == (4, "h")  # type: ignore[union-attr]
    done = transition(worker, event, Released(), LIMITS)
    assert (done.phase, done.turn, done.has_had_turn) == (Phase.HEARTBEAT, None, True)
    assert next_event(done, WorkerInput(12.0), LIMITS) == Heartbeat(12.0, ME, has_had_turn=True)


def test_worker_reports_a_failure_and_continues() -> None:
    worker = after_merge(merging(), MergeFailed(TRANSIENT), LIMITS)
    assert worker.phase is Phase.FAIL
    assert sent_event(worker).error == TRANSIENT  # type: ignore[union-attr]
    assert after(worker, Released()).phase is Phase.HEARTBEAT


def test_conflict_is_planned_again_up_to_a_limit() -> None:
    worker = merging()
    for _ in range(LIMITS.max_conflicts):
        worker = after(after_merge(worker, MergeConflict(TRANSIENT), LIMITS), MergeTable("t", 1))
        assert worker.phase is Phase.MERGE
    assert after_merge(worker, MergeConflict(TRANSIENT), LIMITS).phase is Phase.FAIL
    progress = after(after_merge(worker, SliceDone(), LIMITS), MergeTable("t", 1))
    assert after_merge(progress, MergeConflict(TRANSIENT), LIMITS).phase is Phase.REPORT


def test_worker_stops_working_on_a_lost_table() -> None:
    worker = after_merge(merging(), SliceDone(), LIMITS)
    assert after(worker, TableLost()).phase is Phase.HEARTBEAT
    assert after_fencing(merging()).phase is Phase.END


def test_worker_lingers_then_leaves_then_scans_once_more() -> None:
    worker = after(Worker(ME, Phase.PICK), Idle(None), now=100.0)
    assert (worker.phase, worker.idle_since) == (Phase.LINGER, 100.0)
    worker = after(worker, Idle(None), now=159.0)
    assert (worker.phase, worker.idle_since) == (Phase.LINGER, 100.0)
    worker = after(worker, Idle(None), now=160.0)
    assert worker.phase is Phase.LEAVE
    worker = after(worker, Released())
    assert worker.phase is Phase.RESCAN
    back = after(worker, SlotHeld(8))
    assert (back.phase, back.id) == (Phase.PICK, replace(ME, gen=8))


def test_worker_lingers_for_a_table_that_is_due_soon() -> None:
    lingering = replace(Worker(ME, Phase.LINGER), idle_since=0.0)
    assert after(lingering, Idle(130.0), now=70.0).phase is Phase.LINGER
    assert after(lingering, Idle(131.0), now=70.0).phase is Phase.LEAVE


def test_worker_leaves_if_unknown_tables_are_due() -> None:
    lingering = replace(Worker(ME, Phase.LINGER), idle_since=0.0)
    assert after(lingering, Idle(None, unknown_tables_due=True), now=1.0).phase is Phase.LEAVE


def test_stopping_worker_releases_its_table_and_its_slot() -> None:
    worker = after_merge(merging(), SliceDone(), LIMITS)
    event = sent_event(worker, stopping=True)
    assert isinstance(event, TurnEnded)
    assert event.releases_table
    idle = transition(worker, event, Released(), LIMITS)
    assert isinstance(sent_event(idle, stopping=True), Leave)
    assert after(idle, Released(), stopping=True).phase is Phase.END
    assert after(Worker(ME, Phase.LINGER), Released(), stopping=True).phase is Phase.END


def test_merging_worker_sends_no_event() -> None:
    with pytest.raises(ValueError, match="sends no event"):
        next_event(merging(), WorkerInput(0.0), LIMITS)


HALF = ReplayProgress(1, 2, mark="half")
REPLAY = Replay("r1", 0.0)


def replaying() -> Worker:
    return after(Worker(ME, Phase.PICK), MergeTable("t", 1, REPLAY))


def test_replay_is_reported_slice_by_slice_before_the_merge_continues() -> None:
    worker = after_merge(replaying(), SliceDone(HALF), LIMITS)
    event = sent_event(worker)
    assert isinstance(event, Progressed)
    assert (event.replay_id, event.progress) == ("r1", HALF)
    worker = after_merge(
        after(worker, MergeTable("t", 1, replace(REPLAY, progress=HALF))), ReplayDone(HALF), LIMITS
    )
    assert worker.phase is Phase.REPLAYED
    event = sent_event(worker)
    assert isinstance(event, Replayed)
    assert (event.replay_id, event.progress) == ("r1", HALF)
    worker = after(worker, MergeTable("t", 2))
    assert (worker.phase, worker.turn and worker.turn.replay) == (Phase.MERGE, None)


def test_turn_may_end_during_a_replay_with_its_progress() -> None:
    worker = after_merge(replaying(), SliceDone(HALF), LIMITS)
    worker = after_merge(after(worker, MergeTable("t", 1, REPLAY)), SliceDone(HALF), LIMITS)
    event = sent_event(worker)
    assert isinstance(event, TurnEnded)
    assert (event.replay_id, event.progress) == ("r1", HALF)


def test_failure_states_whether_the_replay_failed() -> None:
    event = sent_event(after_merge(replaying(), MergeFailed(TRANSIENT), LIMITS))
    assert isinstance(event, Failed)
    assert event.replay_id == "r1"
    event = sent_event(after_merge(merging(), MergeFailed(TRANSIENT), LIMITS))
    assert isinstance(event, Failed)
    assert event.replay_id is None


def test_worker_declines_each_unknown_table_then_leaves() -> None:
    lingering = replace(Worker(ME, Phase.LINGER), idle_since=0.0)
    worker = after(lingering, Idle(None, unknown_tables_due=True, unknown_tables=("a", "b")), now=1.0)
    assert worker.phase is Phase.DECLINE
    assert next_event(worker, WorkerInput(2.0, 0.5, discovery_error=TRANSIENT), LIMITS) == Declined(
        2.0, ME, "a", 0.5, TRANSIENT
    )
    worker = after(worker, Released())
    assert next_event(worker, WorkerInput(2.0, 0.5), LIMITS) == Declined(2.0, ME, "b", 0.5)
    worker = after(worker, Released())
    assert isinstance(sent_event(worker), Leave)
    assert after(worker, Released()).phase is Phase.RESCAN, "like a leaving worker"


def test_worker_with_a_slow_clock_uses_the_clock_of_its_launch() -> None:
    worker = after(Worker(ME), SlotHeld(7, 700.0), now=100.0)
    assert next_event(worker, WorkerInput(101.0), LIMITS) == Heartbeat(701.0, ME)
    worker = after(after(worker, SlotHeld(7), now=101.0), MergeTable("t", 1), now=102.0)
    assert worker.turn is not None
    assert worker.turn.read_at == 702.0
    assert next_event(
        after(Worker(ME), SlotHeld(7, 50.0), now=100.0), WorkerInput(101.0), LIMITS
    ) == Heartbeat(101.0, ME)
