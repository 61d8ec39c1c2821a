"""What a worker tells the state, in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from icemirror.state.actions import Action, Exit, Held, Idle, Lost, Merge, Released
from icemirror.state.events import Beat, Event, Failed, Leave, PassedBy, Progressed, Replayed, TurnEnded
from icemirror.state.replay import Replay, ReplayProgress
from icemirror.state.worker import (
    Doing,
    Limits,
    MergeFailed,
    Moment,
    NothingLeft,
    Overtaken,
    ReplayDone,
    SliceDone,
    Worker,
    fenced,
    merged,
    tell,
    told,
)
from tests.unit.state.samples import ME, TRANSIENT

LIMITS = Limits(linger_seconds=60.0, turn_slices=2, max_conflicts=2)


def after(worker: Worker, answer: Action, now: float = 0.0, *, stopping: bool = False) -> Worker:
    event = tell(worker, Moment(now, stopping=stopping), LIMITS)
    return told(worker, event, answer, LIMITS)


def told_event(worker: Worker, *, stopping: bool = False) -> Event:
    return tell(worker, Moment(0.0, stopping=stopping), LIMITS)


def merging(dirty: int = 1) -> Worker:
    return after(Worker(ME, Doing.PICK), Merge("t", dirty))


def test_a_worker_starts_beats_picks_and_merges() -> None:
    worker = Worker(ME)
    assert worker.doing is Doing.START
    worker = after(worker, Held(7))
    assert worker.doing is Doing.BEAT
    worker = after(worker, Held(7))
    assert worker.doing is Doing.PICK
    worker = after(worker, Merge("t", 3), now=9.0)
    assert worker.doing is Doing.MERGE
    assert worker.turn is not None
    assert (worker.turn.table, worker.turn.dirty, worker.turn.read_at) == ("t", 3, 9.0)


@pytest.mark.parametrize(
    "doing",
    [Doing.START, Doing.BEAT, Doing.PICK, Doing.LINGER, Doing.LEAVE, Doing.RESCAN],
)
def test_a_worker_that_is_fenced_ends(doing: Doing) -> None:
    assert after(Worker(ME, doing), Exit()).doing is Doing.END


def test_after_a_slice_the_notices_are_read_again_before_the_next_plan() -> None:
    worker = merged(merging(), SliceDone(), LIMITS)
    assert worker.doing is Doing.REPORT
    worker = after(worker, Merge("t", 5), now=8.0)
    assert worker.doing is Doing.MERGE
    assert worker.turn is not None
    assert (worker.turn.dirty, worker.turn.read_at, worker.turn.slices) == (5, 8.0, 1)


def test_a_turn_may_end_after_some_slices_and_starts_counting_again_if_it_does_not() -> None:
    worker = merged(merging(), SliceDone(), LIMITS)
    assert isinstance(told_event(worker), Progressed)
    worker = merged(after(worker, Merge("t", 1)), SliceDone(), LIMITS)
    assert isinstance(told_event(worker), TurnEnded)
    again = after(worker, Merge("t", 1))
    assert again.turn is not None
    assert again.turn.slices == 0
    assert after(worker, Released()).doing is Doing.BEAT


def test_an_empty_plan_completes_with_the_notices_that_were_read_before_it() -> None:
    worker = merged(merging(dirty=4), NothingLeft("h"), LIMITS)
    event = tell(worker, Moment(12.0), LIMITS)
    assert (event.dirty, event.head) == (4, "h")  # type: ignore[union-attr]
    done = told(worker, event, Released(), LIMITS)
    assert (done.doing, done.turn, done.proven) == (Doing.BEAT, None, True)
    assert tell(done, Moment(12.0), LIMITS) == Beat(12.0, ME, proven=True)


def test_a_failure_is_told_and_the_worker_goes_on() -> None:
    worker = merged(merging(), MergeFailed(TRANSIENT), LIMITS)
    assert worker.doing is Doing.FAIL
    assert told_event(worker).error == TRANSIENT  # type: ignore[union-attr]
    assert after(worker, Released()).doing is Doing.BEAT


def test_a_conflict_is_planned_again_but_not_for_ever() -> None:
    worker = merging()
    for _ in range(LIMITS.max_conflicts):
        worker = after(merged(worker, Overtaken(TRANSIENT), LIMITS), Merge("t", 1))
        assert worker.doing is Doing.MERGE
    assert merged(worker, Overtaken(TRANSIENT), LIMITS).doing is Doing.FAIL
    progress = after(merged(worker, SliceDone(), LIMITS), Merge("t", 1))
    assert merged(progress, Overtaken(TRANSIENT), LIMITS).doing is Doing.REPORT


def test_a_table_that_was_lost_is_left_alone() -> None:
    worker = merged(merging(), SliceDone(), LIMITS)
    assert after(worker, Lost()).doing is Doing.BEAT
    assert fenced(merging()).doing is Doing.END


def test_a_worker_lingers_then_leaves_then_looks_once_more() -> None:
    worker = after(Worker(ME, Doing.PICK), Idle(None), now=100.0)
    assert (worker.doing, worker.idle_since) == (Doing.LINGER, 100.0)
    worker = after(worker, Idle(None), now=159.0)
    assert (worker.doing, worker.idle_since) == (Doing.LINGER, 100.0)
    worker = after(worker, Idle(None), now=160.0)
    assert worker.doing is Doing.LEAVE
    worker = after(worker, Released())
    assert worker.doing is Doing.RESCAN
    back = after(worker, Held(8))
    assert (back.doing, back.me) == (Doing.PICK, replace(ME, gen=8))


def test_a_worker_stays_for_work_that_is_due_soon() -> None:
    lingering = replace(Worker(ME, Doing.LINGER), idle_since=0.0)
    assert after(lingering, Idle(130.0), now=70.0).doing is Doing.LINGER
    assert after(lingering, Idle(131.0), now=70.0).doing is Doing.LEAVE


def test_a_worker_makes_room_for_one_that_knows_the_tables_that_wait() -> None:
    lingering = replace(Worker(ME, Doing.LINGER), idle_since=0.0)
    assert after(lingering, Idle(None, strangers=True), now=1.0).doing is Doing.LEAVE


def test_a_worker_that_is_asked_to_stop_gives_back_its_table_and_its_slot() -> None:
    worker = merged(merging(), SliceDone(), LIMITS)
    event = told_event(worker, stopping=True)
    assert isinstance(event, TurnEnded)
    assert event.give_back
    idle = told(worker, event, Released(), LIMITS)
    assert isinstance(told_event(idle, stopping=True), Leave)
    assert after(idle, Released(), stopping=True).doing is Doing.END
    assert after(Worker(ME, Doing.LINGER), Released(), stopping=True).doing is Doing.END


def test_a_worker_has_nothing_to_tell_while_it_merges() -> None:
    with pytest.raises(ValueError, match="nothing to tell"):
        tell(merging(), Moment(0.0), LIMITS)


HALF = ReplayProgress(1, 2, mark="half")
REPLAY = Replay("r1", 0.0)


def replaying() -> Worker:
    return after(Worker(ME, Doing.PICK), Merge("t", 1, REPLAY))


def test_a_replay_is_reported_slice_by_slice_and_then_the_merge_goes_on() -> None:
    worker = merged(replaying(), SliceDone(HALF), LIMITS)
    event = told_event(worker)
    assert isinstance(event, Progressed)
    assert (event.replay_id, event.progress) == ("r1", HALF)
    worker = merged(after(worker, Merge("t", 1, replace(REPLAY, progress=HALF))), ReplayDone(HALF), LIMITS)
    assert worker.doing is Doing.REPLAYED
    event = told_event(worker)
    assert isinstance(event, Replayed)
    assert (event.replay_id, event.progress) == ("r1", HALF)
    worker = after(worker, Merge("t", 2))
    assert (worker.doing, worker.turn and worker.turn.replay) == (Doing.MERGE, None)


def test_a_turn_may_end_amid_a_replay_with_its_progress() -> None:
    worker = merged(replaying(), SliceDone(HALF), LIMITS)
    worker = merged(after(worker, Merge("t", 1, REPLAY)), SliceDone(HALF), LIMITS)
    event = told_event(worker)
    assert isinstance(event, TurnEnded)
    assert (event.replay_id, event.progress) == ("r1", HALF)


def test_a_failure_says_whether_it_was_the_replays() -> None:
    event = told_event(merged(replaying(), MergeFailed(TRANSIENT), LIMITS))
    assert isinstance(event, Failed)
    assert event.replay_id == "r1"
    event = told_event(merged(merging(), MergeFailed(TRANSIENT), LIMITS))
    assert isinstance(event, Failed)
    assert event.replay_id is None


def test_a_worker_says_of_each_table_that_it_came_for_and_does_not_know_that_it_is_so_then_leaves() -> None:
    lingering = replace(Worker(ME, Doing.LINGER), idle_since=0.0)
    worker = after(lingering, Idle(None, strangers=True, unknown=("a", "b")), now=1.0)
    assert worker.doing is Doing.DECLINE
    assert tell(worker, Moment(2.0, 0.5, blind=TRANSIENT), LIMITS) == PassedBy(2.0, ME, "a", 0.5, TRANSIENT)
    worker = after(worker, Released())
    assert tell(worker, Moment(2.0, 0.5), LIMITS) == PassedBy(2.0, ME, "b", 0.5)
    worker = after(worker, Released())
    assert isinstance(told_event(worker), Leave)
    assert after(worker, Released()).doing is Doing.RESCAN, "as whoever leaves"


def test_a_worker_whose_clock_is_behind_lives_by_the_clock_that_launched_it() -> None:
    worker = after(Worker(ME), Held(7, 700.0), now=100.0)
    assert tell(worker, Moment(101.0), LIMITS) == Beat(701.0, ME)
    worker = after(after(worker, Held(7), now=101.0), Merge("t", 1), now=102.0)
    assert worker.turn is not None
    assert worker.turn.read_at == 702.0
    assert tell(after(Worker(ME), Held(7, 50.0), now=100.0), Moment(101.0), LIMITS) == Beat(101.0, ME)
