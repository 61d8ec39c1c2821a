"""The worker loop: performs what the state machine in `icemirror.protocol.worker` decides, until it ends."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from icemirror.errors import Conflict, IcemirrorError, Invalid, Transient
from icemirror.processes.crash_points import reach
from icemirror.protocol.actions import Action, Idle
from icemirror.protocol.events import Declined, Event, KnownTables, TurnEnded, WorkerId
from icemirror.protocol.idle_polling import MAX_POLL_SECONDS, LastPoll
from icemirror.protocol.policy import Policy
from icemirror.protocol.replay import Replay, ReplayStep
from icemirror.protocol.worker import (
    Limits,
    MergeConflict,
    MergedToHead,
    MergeFailed,
    MergeOutcome,
    Phase,
    ReplayDone,
    SliceDone,
    Worker,
    WorkerInput,
    after_fencing,
    after_merge,
    next_event,
    transition,
)
from icemirror.result import ErrorResult, NothingToMerge, StepResult
from icemirror.stores.apply import apply
from icemirror.stores.store import Store
from icemirror.telemetry.error_results import LOG_HINT, to_error_result
from icemirror.telemetry.logs import bind, get_log
from spark_job.worker.heartbeat import HeartbeatThread
from spark_job.worker.turn import Turn

_POLL_SECONDS = 0.25  # how often a lingering worker polls the state
_POLLS_PER_LEASE = 4
_MAX_SLICE_SECONDS = 6 * 3600.0
_STATE_ATTEMPTS = 5

log = get_log(__name__)


def _report_nothing(error: BaseException) -> None:
    """Report no errors."""


def _discovery_complete() -> ErrorResult | None:
    """The worker knows all tables of its configuration."""
    return None


def _no_replay(table: str, replay: Replay) -> ReplayStep:
    raise Invalid(f"{table}: this job cannot replay")


@dataclass(frozen=True)
class WorkerDependencies:
    """Everything that the worker loop calls.

    `advance` does the next step of a table, `replay` the next step of a requested replay; both raise errors of
    `icemirror.errors`. `timer`: seconds, without the time that Spark took to start. `tables` are those that the worker
    knows, `discovery_error`: why they may be incomplete. `stopping` is true once the worker has to release what it
    holds and end. `report` receives every failure.
    """

    store: Store
    policy: Policy
    limits: Limits
    advance: Callable[[str], StepResult]
    tables: Callable[[], KnownTables]
    stopping: Callable[[], bool]
    discovery_error: Callable[[], ErrorResult | None] = _discovery_complete
    replay: Callable[[str, Replay], ReplayStep] = _no_replay
    report: Callable[[BaseException], None] = _report_nothing
    clock: Callable[[], float] = time.time
    timer: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
    max_slice_seconds: float = _MAX_SLICE_SECONDS


def run_worker(me: WorkerId, deps: WorkerDependencies) -> None:
    """Take the slot (or end at once if it is taken), serve tables, linger, and release the slot.

    Only the state is touched before the slot is taken: `advance` may open what it needs at its first call.
    """
    worker, turn = Worker(me), None
    last: LastPoll | None = None
    with bind(run=me.run_id):
        while worker.phase is not Phase.END:
            if worker.phase is Phase.MERGE and worker.turn is not None:
                turn = turn or Turn(worker.turn.table, me.run_id, deps.clock, deps.timer)
                with bind(table=turn.table):
                    worker = _merge(worker, turn, deps)
                continue
            token = ""
            if worker.phase is Phase.LINGER:
                deps.sleep(_POLL_SECONDS)
                token = _change_token(deps)
                if last and last.is_fresh(token, deps.clock()) and not deps.stopping():
                    continue
            event = next_event(worker, _worker_input(turn, deps), deps.limits)
            action = _apply(worker.phase, event, deps)
            if isinstance(event, Declined):
                log.warning("table not in the job's configuration", table=event.table)
            worker = transition(worker, event, action, deps.limits)
            last = _last_poll(worker, action, token, deps)
            if turn is not None and (worker.phase is not Phase.MERGE or isinstance(event, TurnEnded)):
                _record(turn, deps)
                turn = None
        if turn is not None:  # fenced during a slice: earlier commits are recorded too
            _record(turn, deps)
        log.info("worker ended")


def _change_token(deps: WorkerDependencies) -> str:
    """The store's change token, read before the rows: a change in between shows at the next poll."""
    try:
        return deps.store.change_token()
    except Transient:
        return ""


def _last_poll(worker: Worker, action: Action, token: str, deps: WorkerDependencies) -> LastPoll | None:
    """What a lingering worker saw at its last poll; None if it has to poll again at once."""
    if worker.phase is not Phase.LINGER or not isinstance(action, Idle) or not token:
        return None
    now, behind = deps.clock(), worker.clock_offset_seconds
    ends_at = (worker.idle_since or 0.0) - behind + deps.limits.linger_seconds
    due_at = None if action.due_at is None else action.due_at - behind
    max_seconds = min(MAX_POLL_SECONDS, deps.policy.lease_seconds / _POLLS_PER_LEASE)
    return LastPoll(token, now, due_at, ends_at, max_seconds)


def _apply(phase: Phase, event: Event, deps: WorkerDependencies) -> Action:
    """Apply an event to the state; retry a few times while the store is unreachable."""
    reach(f"worker-{phase}")
    for attempt in range(1, _STATE_ATTEMPTS):
        try:
            (action,) = apply(deps.store, event, deps.policy, deps.sleep).actions
            break
        except Transient as error:
            log.warning("state unreachable, retrying", reason=str(error), attempt=attempt)
            deps.sleep(2.0**attempt * (0.5 + deps.jitter() / 2))
    else:
        (action,) = apply(deps.store, event, deps.policy, deps.sleep).actions
    reach(f"worker-{phase}-done")
    return action


def _merge(worker: Worker, turn: Turn, deps: WorkerDependencies) -> Worker:
    reach("worker-merge")
    with HeartbeatThread(
        worker.me,
        deps.store,
        deps.policy,
        lambda: deps.clock() + worker.clock_offset_seconds,
        deps.max_slice_seconds,
    ) as heartbeat:
        outcome = _advance(turn, worker.turn.replay if worker.turn else None, deps)
    reach("worker-merge-done")
    if heartbeat.slot_lost:
        log.warning("slot taken by another worker, stopping")
        return after_fencing(worker)
    after = after_merge(worker, outcome, deps.limits)
    if after.phase is Phase.FAIL and turn.error is None:  # too many conflicts
        turn.error = after.error
        log.warning("merge failed", reason=after.error.message if after.error else "")
    return after


def _advance(turn: Turn, replay: Replay | None, deps: WorkerDependencies) -> MergeOutcome:
    """Do one step; any error fails this table only; the others continue."""
    try:
        step = deps.replay(turn.table, replay) if replay else deps.advance(turn.table)
    except Conflict as error:
        return MergeConflict(to_error_result(error, LOG_HINT))
    except IcemirrorError as error:
        log.failure("merge failed", error)
        deps.report(error)
        turn.error = to_error_result(error, LOG_HINT)
        return MergeFailed(turn.error)
    except Exception as error:
        log.failure("merge failed unexpectedly", error)
        deps.report(error)
        turn.error = to_error_result(error, LOG_HINT)
        return MergeFailed(turn.error)
    if isinstance(step, ReplayStep):
        turn.add_replay_step(step)
        return ReplayDone(step.progress) if step.done else SliceDone(step.progress)
    turn.add_step(step)
    return MergedToHead(step.head) if isinstance(step, NothingToMerge) else SliceDone()


def _record(turn: Turn, deps: WorkerDependencies) -> None:
    """Record a turn for status and metrics; a failure does not stop the worker."""
    try:
        deps.store.record_result(turn.result())
    except Transient as error:
        log.warning("result not recorded", reason=str(error))


def _worker_input(turn: Turn | None, deps: WorkerDependencies) -> WorkerInput:
    return WorkerInput(
        now=deps.clock(),
        jitter=deps.jitter(),
        tables=deps.tables(),
        position=turn.position if turn else None,
        backlog=turn.backlog if turn else None,
        run=turn.summary() if turn else None,
        stopping=deps.stopping(),
        discovery_error=deps.discovery_error(),
    )
