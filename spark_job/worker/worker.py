"""The worker loop: performs what the state machine in `icemirror.protocol.worker` decides, until it ends."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from icemirror.errors import Conflict, Transient
from icemirror.processes.crash_points import crash_point
from icemirror.protocol.actions import Action, Idle
from icemirror.protocol.events import ConfiguredTables, Declined, Event, TurnEnded, WorkerId
from icemirror.protocol.policy import Policy
from icemirror.protocol.replay import Replay, ReplayStep
from icemirror.protocol.worker import (
    MAX_POLL_SECONDS,
    LastPoll,
    MergeConflict,
    MergedToHead,
    MergeFailed,
    MergeOutcome,
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
from icemirror.result import ErrorResult
from icemirror.step_results import NothingToMerge, StepResult
from icemirror.stores.apply import apply
from icemirror.stores.store import Store
from icemirror.telemetry.error_results import LOG_HINT, to_error_result
from icemirror.telemetry.logs import bind, get_log
from icemirror.telemetry.sentry import report_nothing
from spark_job.worker.heartbeat import HeartbeatThread
from spark_job.worker.turn_record import TurnRecord

_POLL_SECONDS = 0.25  # how often a lingering worker polls the state
_POLLS_PER_LEASE = 4
_MAX_SLICE_SECONDS = 6 * 3600.0
_STATE_ATTEMPTS = 5

log = get_log(__name__)


class ServedTables(Protocol):
    """The tables that a worker serves; see `WorkerTables`. Steps raise errors of `icemirror.errors`."""

    def names(self) -> ConfiguredTables:
        """Return the names of all tables that the worker knows."""

    def discovery_error(self) -> ErrorResult | None:
        """Return why `names` may be incomplete; None if it is complete."""

    def advance(self, name: str) -> StepResult:
        """Execute the next step of a table; return its result."""

    def replay(self, name: str, replay: Replay) -> ReplayStep:
        """Execute the next step of a requested replay; return its result."""

    def timer(self) -> float:
        """Return a timer in seconds, without the time that Spark took to start."""


@dataclass(frozen=True)
class WorkerDependencies:
    """Everything that the worker loop calls.

    `stopping` is true once the worker has to release what it holds and end. `report` receives every failure.
    """

    store: Store
    policy: Policy
    limits: WorkerLimits
    tables: ServedTables
    stopping: Callable[[], bool]
    report: Callable[[BaseException], None] = report_nothing
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
    max_slice_seconds: float = _MAX_SLICE_SECONDS


def run_worker(worker_id: WorkerId, deps: WorkerDependencies) -> None:
    """Take the slot (or end at once if it is taken), serve tables, linger, and release the slot.

    Only the state is touched before the slot is taken: `tables` may open what they need at the first call.
    """
    state, record = Worker(worker_id), None
    last_poll: LastPoll | None = None
    with bind(run=worker_id.run_id):
        while state.phase is not Phase.END:
            if state.phase is Phase.MERGE and state.turn is not None:
                record = record or TurnRecord(
                    state.turn.table, worker_id.run_id, deps.clock, deps.tables.timer
                )
                with bind(table=record.table):
                    state = _run_step(state, record, deps)
                continue
            token = ""
            if state.phase is Phase.LINGER:
                deps.sleep(_POLL_SECONDS)
                token = _change_token(deps)
                if last_poll and last_poll.is_fresh(token, deps.clock()) and not deps.stopping():
                    continue
            event = next_event(state, _worker_input(record, deps), deps.limits)
            action = _apply_event(state.phase, event, deps)
            if isinstance(event, Declined):
                log.warning("table not in the job's configuration", table=event.table)
            state = transition(state, event, action, deps.limits)
            last_poll = _last_poll(state, action, token, deps)
            if record is not None and (state.phase is not Phase.MERGE or isinstance(event, TurnEnded)):
                _store_result(record, deps)
                record = None
        if record is not None:  # fenced during a slice: earlier commits are recorded too
            _store_result(record, deps)
        log.info("worker ended")


def _change_token(deps: WorkerDependencies) -> str:
    """Return the store's change token, read before the rows: a change in between shows at the next poll."""
    try:
        return deps.store.change_token()
    except Transient:
        return ""


def _last_poll(state: Worker, action: Action, token: str, deps: WorkerDependencies) -> LastPoll | None:
    """Return what a lingering worker saw at its last poll; None if it has to poll again at once."""
    if state.phase is not Phase.LINGER or not isinstance(action, Idle) or not token:
        return None
    now, offset_seconds = deps.clock(), state.clock_offset_seconds
    ends_at = (state.idle_since or 0.0) - offset_seconds + deps.limits.linger_seconds
    due_at = None if action.due_at is None else action.due_at - offset_seconds
    max_seconds = min(MAX_POLL_SECONDS, deps.policy.lease_seconds / _POLLS_PER_LEASE)
    return LastPoll(token, now, due_at, ends_at, max_seconds)


def _apply_event(phase: Phase, event: Event, deps: WorkerDependencies) -> Action:
    """Apply an event to the stored state and return the action; retry a few times while the store is unreachable."""
    crash_point(f"worker-{phase}")
    for attempt in range(1, _STATE_ATTEMPTS):
        try:
            (action,) = apply(deps.store, event, deps.policy, deps.sleep).actions
            break
        except Transient as error:
            log.warning("state unreachable, retrying", reason=str(error), attempt=attempt)
            deps.sleep(2.0**attempt * (0.5 + deps.jitter() / 2))
    else:
        (action,) = apply(deps.store, event, deps.policy, deps.sleep).actions
    crash_point(f"worker-{phase}-done")
    return action


def _run_step(state: Worker, record: TurnRecord, deps: WorkerDependencies) -> Worker:
    crash_point("worker-merge")
    with HeartbeatThread(
        state.id,
        deps.store,
        deps.policy,
        lambda: deps.clock() + state.clock_offset_seconds,
        deps.max_slice_seconds,
    ) as heartbeat:
        outcome = _advance_table(record, state.turn.replay if state.turn else None, deps)
    crash_point("worker-merge-done")
    if heartbeat.slot_lost:
        log.warning("slot taken by another worker, stopping")
        return after_fencing(state)
    next_state = after_merge(state, outcome, deps.limits)
    if next_state.phase is Phase.FAIL and record.error is None:  # too many conflicts
        record.error = next_state.error
        log.warning("merge failed", reason=next_state.error.message if next_state.error else "")
    return next_state


def _advance_table(record: TurnRecord, replay: Replay | None, deps: WorkerDependencies) -> MergeOutcome:
    """Execute one step of the table and return its outcome. An error fails this table only; the others continue."""
    try:
        step = deps.tables.replay(record.table, replay) if replay else deps.tables.advance(record.table)
    except Conflict as error:
        return MergeConflict(to_error_result(error, LOG_HINT))
    except Exception as error:
        return MergeFailed(record.fail(error, LOG_HINT, log, deps.report))
    if isinstance(step, ReplayStep):
        record.add_replay_step(step)
        return ReplayDone(step.progress) if step.done else SliceDone(step.progress)
    record.add_step(step)
    return MergedToHead(step.head_location) if isinstance(step, NothingToMerge) else SliceDone()


def _store_result(record: TurnRecord, deps: WorkerDependencies) -> None:
    """Store the result of a turn for status and metrics; a failure does not stop the worker."""
    try:
        deps.store.record_result(record.turn_result())
    except Transient as error:
        log.warning("result not recorded", reason=str(error))


def _worker_input(record: TurnRecord | None, deps: WorkerDependencies) -> WorkerInput:
    return WorkerInput(
        now=deps.clock(),
        jitter=deps.jitter(),
        tables=deps.tables.names(),
        mirror_status=record.mirror_status if record else None,
        backlog=record.backlog if record else None,
        run=record.summary() if record else None,
        stopping=deps.stopping(),
        discovery_error=deps.tables.discovery_error(),
    )
