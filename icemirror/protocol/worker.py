"""The worker's side of the protocol as a pure automaton: which events it sends, and in which order.

    START ─► HEARTBEAT ─► PICK ─► MERGE ─► REPORT ─► MERGE …       (another slice)
               ▲           │        ├────► COMPLETE ─► HEARTBEAT   (the plan was empty)
               │           │        ├────► FAIL ─────► HEARTBEAT
               │           │        └────► REPLAYED ─► MERGE …     (the replay is complete)
               │           └─► LINGER ─► PICK                      (a table is due)
               │                  ├────► LEAVE ─► RESCAN ─► PICK | END
               │                  └────► DECLINE ─► DECLINE | LEAVE
               │                         (its configuration lacks a table it was launched for)
               └── lost or released the table: REPORT

`spark_job.worker.worker` performs the effects; the model check explores the same automaton.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from icemirror.protocol.actions import Action, Idle, MergeTable, Released, SlotHeld, StopWorker, TableLost
from icemirror.protocol.events import (
    Completed,
    ConfiguredTables,
    Declined,
    Event,
    Failed,
    Heartbeat,
    Leave,
    LingerPoll,
    Pick,
    Progressed,
    Replayed,
    Rescan,
    Started,
    TurnEnded,
    WorkerId,
)
from icemirror.protocol.replay import Replay, ReplayProgress
from icemirror.protocol.rows import PlannedBacklog, TurnSummary
from icemirror.result import ErrorResult
from icemirror.step_results import Backlog, MirrorStatus

MAX_POLL_SECONDS = 5.0
"""Longest time between two polls. A change token is only a hint: a change may be lost, and older releases set none."""


class Phase(StrEnum):
    """What a worker does next. The arrows are drawn at the top of this module."""

    START = "start"
    HEARTBEAT = "heartbeat"
    PICK = "pick"
    MERGE = "merge"
    REPORT = "report"
    COMPLETE = "complete"
    REPLAYED = "replayed"
    FAIL = "fail"
    LINGER = "linger"
    DECLINE = "decline"
    LEAVE = "leave"
    RESCAN = "rescan"
    END = "end"


@dataclass(frozen=True, slots=True)
class TurnState:
    """The table that the worker owns, and the number of notices that an empty plan covers. A replay comes first."""

    table: str
    dirty: int
    read_at: float
    slices: int = 0
    conflicts: int = 0
    replay: Replay | None = None
    progress: ReplayProgress | None = None  # since the last report

    @property
    def replay_id(self) -> str | None:
        """Id of the replay in progress."""
        return self.replay.id if self.replay else None


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker between two effects.

    `clock_offset_seconds`: how far its clock is behind the trigger's, since it cannot start before its launch.
    """

    id: WorkerId
    phase: Phase = Phase.START
    turn: TurnState | None = None
    head: str = ""
    error: ErrorResult | None = None
    idle_since: float | None = None
    has_had_turn: bool = False  # since the last heartbeat
    unknown_tables: tuple[str, ...] = ()  # launched for these, but its configuration lacks them
    clock_offset_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """When a worker stops lingering, ends a turn, or gives up on conflicts."""

    linger_seconds: float = 60.0
    max_slices_per_turn: int = 2  # then the next waiting table has its turn
    max_conflicts: int = 10


@dataclass(frozen=True, slots=True)
class WorkerInput:
    """Values from outside that events contain. `discovery_error`: why `tables` may be incomplete."""

    now: float
    jitter: float = 0.0
    tables: ConfiguredTables | None = None
    mirror_status: MirrorStatus | None = None
    backlog: Backlog | None = None
    run: TurnSummary | None = None
    stopping: bool = False
    discovery_error: ErrorResult | None = None


# --- outcomes of a merge -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SliceDone:
    """A slice was committed, or the replay advanced; there may be more."""

    progress: ReplayProgress | None = None


@dataclass(frozen=True, slots=True)
class ReplayDone:
    """The replay is complete."""

    progress: ReplayProgress | None = None


@dataclass(frozen=True, slots=True)
class MergedToHead:
    """The plan was empty: the mirror is merged up to this head."""

    head: str


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """Another commit on the mirror came first: plan again."""

    error: ErrorResult


@dataclass(frozen=True, slots=True)
class MergeFailed:
    """Merging the table failed."""

    error: ErrorResult


MergeOutcome = SliceDone | ReplayDone | MergedToHead | MergeConflict | MergeFailed


def after_merge(worker: Worker, outcome: MergeOutcome, limits: WorkerLimits) -> Worker:
    """Return the worker after MERGE ended with this outcome."""
    turn = _turn(worker)
    match outcome:
        case SliceDone(progress):
            turn = replace(turn, slices=turn.slices + 1, conflicts=0, progress=progress)
            return replace(worker, phase=Phase.REPORT, turn=turn)
        case ReplayDone(progress):
            return replace(worker, phase=Phase.REPLAYED, turn=replace(turn, conflicts=0, progress=progress))
        case MergedToHead(head):
            return replace(worker, phase=Phase.COMPLETE, head=head)
        case MergeConflict(error) if turn.conflicts >= limits.max_conflicts:
            return replace(worker, phase=Phase.FAIL, error=error)
        case MergeConflict():
            return replace(worker, phase=Phase.REPORT, turn=replace(turn, conflicts=turn.conflicts + 1))
        case MergeFailed(error):
            return replace(worker, phase=Phase.FAIL, error=error)
    assert_never(outcome)


def after_fencing(worker: Worker) -> Worker:
    """Return the worker after it lost its slot during MERGE: it ends without another event."""
    return replace(worker, phase=Phase.END)


# --- events to the state, and its actions -----------------------------------------------------------------


def next_event(worker: Worker, worker_input: WorkerInput, limits: WorkerLimits) -> Event:
    """Return the worker's next event; MERGE and END have none."""
    worker_id, now = worker.id, worker_input.now + worker.clock_offset_seconds
    match worker.phase:
        case Phase.START:
            return Started(now, worker_id)
        case Phase.HEARTBEAT:
            return (
                Leave(now, worker_id)
                if worker_input.stopping
                else Heartbeat(now, worker_id, worker.has_had_turn)
            )
        case Phase.PICK:
            return Pick(now, worker_id, worker_input.tables)
        case Phase.REPORT:
            turn = _turn(worker)
            planned = PlannedBacklog(worker_input.backlog, turn.dirty) if worker_input.backlog else None
            if turn.slices < limits.max_slices_per_turn and not worker_input.stopping:
                return Progressed(
                    now,
                    worker_id,
                    turn.table,
                    worker_input.mirror_status,
                    turn.replay_id,
                    turn.progress,
                    planned,
                )
            return TurnEnded(
                now,
                worker_id,
                turn.table,
                worker_input.mirror_status,
                worker_input.run,
                worker_input.tables,
                releases_table=worker_input.stopping,
                replay_id=turn.replay_id,
                progress=turn.progress,
                planned=planned,
            )
        case Phase.REPLAYED:
            turn = _turn(worker)
            return Replayed(
                now, worker_id, turn.table, turn.replay_id or "", turn.progress, worker_input.mirror_status
            )
        case Phase.COMPLETE:
            turn = _turn(worker)
            return Completed(
                now,
                worker_id,
                turn.table,
                turn.dirty,
                turn.read_at,
                worker.head,
                worker_input.mirror_status,
                worker_input.run,
            )
        case Phase.FAIL:
            turn = _turn(worker)
            if worker.error is None:
                raise ValueError(f"a worker in phase {worker.phase} must have an error")
            return Failed(
                now,
                worker_id,
                turn.table,
                worker.error,
                worker_input.jitter,
                worker_input.run,
                turn.replay_id,
            )
        case Phase.LINGER:
            return (
                Leave(now, worker_id)
                if worker_input.stopping
                else LingerPoll(now, worker_id, worker_input.tables)
            )
        case Phase.DECLINE:
            return Declined(
                now, worker_id, worker.unknown_tables[0], worker_input.jitter, worker_input.discovery_error
            )
        case Phase.LEAVE:
            return Leave(now, worker_id)
        case Phase.RESCAN:
            return Rescan(now, worker_id, worker_input.tables)
        case Phase.MERGE | Phase.END:
            raise ValueError(f"a worker in phase {worker.phase} sends no event")
    assert_never(worker.phase)


def transition(worker: Worker, event: Event, action: Action, limits: WorkerLimits) -> Worker:
    """Return the worker after the state applied `event` and returned `action`."""
    idle_worker = Worker(worker.id, clock_offset_seconds=worker.clock_offset_seconds)
    match action:
        case StopWorker():
            return replace(idle_worker, phase=Phase.END)
        case SlotHeld(_, launched_at) if isinstance(event, Started):
            return replace(
                idle_worker, phase=Phase.HEARTBEAT, clock_offset_seconds=max(0.0, launched_at - event.now)
            )
        case SlotHeld(gen):
            return replace(idle_worker, id=replace(worker.id, gen=gen), phase=Phase.PICK)
        case MergeTable(table, dirty, replay):
            turn = worker.turn or TurnState(table, dirty, event.now)
            slices = 0 if isinstance(event, TurnEnded) else turn.slices
            turn = replace(turn, dirty=dirty, read_at=event.now, slices=slices, replay=replay, progress=None)
            return replace(idle_worker, phase=Phase.MERGE, turn=turn)
        case Idle():
            idle_since = event.now if worker.idle_since is None else worker.idle_since
            if worker.phase is not Phase.LINGER or not _lingered_enough(
                action, event.now, idle_since, limits
            ):
                return replace(idle_worker, phase=Phase.LINGER, idle_since=idle_since)
            return _decline_next(idle_worker, action.unknown_tables)
        case Released() if isinstance(event, Declined):
            return _decline_next(idle_worker, worker.unknown_tables[1:])
        case Released() if isinstance(event, Leave):
            # A stopping worker leaves tables that became due meanwhile to the next sweep.
            return replace(idle_worker, phase=Phase.RESCAN if worker.phase is Phase.LEAVE else Phase.END)
        case Released() | TableLost():
            return replace(idle_worker, phase=Phase.HEARTBEAT, has_had_turn=True)
        case _:
            raise ValueError(f"unexpected action {action} after {event}")


def _decline_next(idle_worker: Worker, unknown_tables: tuple[str, ...]) -> Worker:
    """Return the worker that declines the next unknown table, or leaves after the last."""
    return replace(
        idle_worker, phase=Phase.DECLINE if unknown_tables else Phase.LEAVE, unknown_tables=unknown_tables
    )


def _lingered_enough(idle: Idle, now: float, idle_since: float, limits: WorkerLimits) -> bool:
    """Return whether the linger time has passed and no waiting table becomes due within another one."""
    if idle.unknown_tables_due:
        return True
    is_due_soon = idle.due_at is not None and idle.due_at - now <= limits.linger_seconds
    return now - idle_since >= limits.linger_seconds and not is_due_soon


def _turn(worker: Worker) -> TurnState:
    if worker.turn is None:
        raise ValueError(f"a worker in phase {worker.phase} must own a table")
    return worker.turn


# --- polls of a lingering worker ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LastPoll:
    """The last poll of the rows: the store's change token before it, its time, and when to poll next anyway.

    `due_at`: a waiting table becomes due. `ends_at`: the worker has lingered long enough.
    `max_seconds`: poll after this time even if the token is unchanged.
    """

    token: str
    polled_at: float
    due_at: float | None
    ends_at: float
    max_seconds: float = MAX_POLL_SECONDS

    def is_fresh(self, token: str, now: float) -> bool:
        """Return whether another poll would show the same rows."""
        expires_at = min(self.ends_at, self.polled_at + self.max_seconds)
        if token != self.token or not self.polled_at <= now < expires_at:
            return False
        return self.due_at is None or now < self.due_at
