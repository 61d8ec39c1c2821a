"""A worker: performs what the automaton in `icemirror.state.worker` decides, until it has to end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from icemirror.crash import reach
from icemirror.errors import Conflict, IcemirrorError, Invalid, Transient
from icemirror.failure import MORE_IN_LOG, failure_of
from icemirror.result import Advance, ErrorResult, UpToDate
from icemirror.state.actions import Action, Idle
from icemirror.state.apply import apply
from icemirror.state.events import Event, Holder, Names, PassedBy, TurnEnded
from icemirror.state.lingering import MOST_SECONDS, LastLook
from icemirror.state.policy import Policy
from icemirror.state.replay import Replay, ReplayStep
from icemirror.state.store import Store
from icemirror.state.worker import (
    Doing,
    Limits,
    MergeFailed,
    MergeOutcome,
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
from icemirror.telemetry.logs import bind, get_log
from spark_job.worker.heartbeat import Heartbeat
from spark_job.worker.turn import Turn

_LOOK_SECONDS = 0.25  # how often a lingering worker looks whether there is something new
_LOOKS_A_LEASE = 4
_LONGEST_SLICE_SECONDS = 6 * 3600.0
_STATE_ATTEMPTS = 5

log = get_log(__name__)


def _nothing(error: BaseException) -> None:
    """Nobody wants to hear of errors."""


def _sees_all() -> ErrorResult | None:
    """The tables that a worker knows are all that its configuration has."""
    return None


def _no_replay(table: str, replay: Replay) -> ReplayStep:
    raise Invalid(f"{table}: this job cannot replay")


@dataclass(frozen=True)
class Surroundings:
    """What a worker lives in.

    `advance` merges one slice of a table, or finds that there is none; `replay` does one step of what a person asked
    for. Both raise errors of `icemirror.errors`.
    `timer`: seconds, in which the start of Spark takes no time.
    `tables` are those that the worker knows, and `blind` says why they may not be all; `stopping` turns true when it
    shall give back what it has and end; `report` hears of every failure.
    """

    store: Store
    policy: Policy
    limits: Limits
    advance: Callable[[str], Advance]
    tables: Callable[[], Names]
    stopping: Callable[[], bool]
    blind: Callable[[], ErrorResult | None] = _sees_all
    replay: Callable[[str, Replay], ReplayStep] = _no_replay
    report: Callable[[BaseException], None] = _nothing
    clock: Callable[[], float] = time.time
    timer: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
    longest_slice_seconds: float = _LONGEST_SLICE_SECONDS


def run_worker(me: Holder, around: Surroundings) -> None:
    """Takes the slot (or finds it taken and ends at once), serves tables, lingers, and gives the slot back.

    Nothing but the state is touched before the slot is taken: what `advance` needs may be made at its first call.
    """
    worker, turn = Worker(me), None
    last: LastLook | None = None
    with bind(run=me.run_id):
        while worker.doing is not Doing.END:
            if worker.doing is Doing.MERGE and worker.turn is not None:
                turn = turn or Turn(worker.turn.table, me.run_id, around.clock, around.timer)
                with bind(table=turn.table):
                    worker = _merge(worker, turn, around)
                continue
            mark = ""
            if worker.doing is Doing.LINGER:
                around.sleep(_LOOK_SECONDS)
                mark = _mark(around)
                if last and last.still_holds(mark, around.clock()) and not around.stopping():
                    continue
            event = tell(worker, _moment(turn, around), around.limits)
            answer = _tell(worker.doing, event, around)
            if isinstance(event, PassedBy):
                log.warning("a table waits that this job does not know", table=event.table)
            worker = told(worker, event, answer, around.limits)
            last = _last_look(worker, answer, mark, around)
            if turn is not None and (worker.doing is not Doing.MERGE or isinstance(event, TurnEnded)):
                _record(turn, around)
                turn = None
        if turn is not None:  # fenced during a slice: what was committed before is still worth telling
            _record(turn, around)
        log.info("worker ended")


def _mark(around: Surroundings) -> str:
    """The store's mark, read before the rows are: what comes in between shows the next time."""
    try:
        return around.store.mark()
    except Transient:
        return ""


def _last_look(worker: Worker, answer: Action, mark: str, around: Surroundings) -> LastLook | None:
    """What the worker, if it lingers, has seen. None: it shall look again at once."""
    if worker.doing is not Doing.LINGER or not isinstance(answer, Idle) or not mark:
        return None
    now, behind = around.clock(), worker.behind_seconds
    ends_at = (worker.idle_since or 0.0) - behind + around.limits.linger_seconds
    due_at = None if answer.due_at is None else answer.due_at - behind
    most_seconds = min(MOST_SECONDS, around.policy.lease_seconds / _LOOKS_A_LEASE)
    return LastLook(mark, now, due_at, ends_at, most_seconds)


def _tell(doing: Doing, event: Event, around: Surroundings) -> Action:
    """Applies the event; a state that does not answer is asked again a few times."""
    reach(f"worker-{doing}")
    for attempt in range(1, _STATE_ATTEMPTS):
        try:
            (answer,) = apply(around.store, event, around.policy, around.sleep).actions
            break
        except Transient as error:
            log.warning("the state does not answer", reason=str(error), attempt=attempt)
            around.sleep(2.0**attempt * (0.5 + around.jitter() / 2))
    else:
        (answer,) = apply(around.store, event, around.policy, around.sleep).actions
    reach(f"worker-{doing}-done")
    return answer


def _merge(worker: Worker, turn: Turn, around: Surroundings) -> Worker:
    reach("worker-merge")
    with Heartbeat(
        worker.me,
        around.store,
        around.policy,
        lambda: around.clock() + worker.behind_seconds,
        around.longest_slice_seconds,
    ) as heartbeat:
        outcome = _advance(turn, worker.turn.replay if worker.turn else None, around)
    reach("worker-merge-done")
    if heartbeat.lost:
        log.warning("the slot is another worker's by now: stopping")
        return fenced(worker)
    after = merged(worker, outcome, around.limits)
    if after.doing is Doing.FAIL and turn.error is None:  # overtaken once too often
        turn.error = after.error
        log.warning("merge failed", reason=after.error.message if after.error else "")
    return after


def _advance(turn: Turn, replay: Replay | None, around: Surroundings) -> MergeOutcome:
    """One slice; whatever goes wrong is the failure of this table, and the others go on."""
    try:
        step = around.replay(turn.table, replay) if replay else around.advance(turn.table)
    except Conflict as error:
        return Overtaken(failure_of(error, MORE_IN_LOG))
    except IcemirrorError as error:
        log.failure("merge failed", error)
        around.report(error)
        turn.error = failure_of(error, MORE_IN_LOG)
        return MergeFailed(turn.error)
    except Exception as error:
        log.failure("merge failed unexpectedly", error)
        around.report(error)
        turn.error = failure_of(error, MORE_IN_LOG)
        return MergeFailed(turn.error)
    if isinstance(step, ReplayStep):
        turn.note_replay(step)
        return ReplayDone(step.progress) if step.done else SliceDone(step.progress)
    turn.note(step)
    return NothingLeft(step.head) if isinstance(step, UpToDate) else SliceDone()


def _record(turn: Turn, around: Surroundings) -> None:
    """For status and metrics only: a state that does not take it does not stop the worker."""
    try:
        around.store.record_result(turn.result())
    except Transient as error:
        log.warning("result not recorded", reason=str(error))


def _moment(turn: Turn | None, around: Surroundings) -> Moment:
    return Moment(
        now=around.clock(),
        jitter=around.jitter(),
        tables=around.tables(),
        position=turn.position if turn else None,
        left=turn.left if turn else None,
        run=turn.summary() if turn else None,
        stopping=around.stopping(),
        blind=around.blind(),
    )
