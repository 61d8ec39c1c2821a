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

from icemirror.errors import Kind
from icemirror.protocol.actions import Action, Idle, MergeTable, Released, SlotHeld, StopWorker, TableLost
from icemirror.protocol.events import (
    Completed,
    Declined,
    Event,
    Failed,
    Heartbeat,
    KnownTables,
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
from icemirror.protocol.rows import PlannedBacklog, RunSummary
from icemirror.result import Backlog, ErrorResult, Position


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

    me: WorkerId
    phase: Phase = Phase.START
    turn: TurnState | None = None
    head: str = ""
    error: ErrorResult | None = None
    idle_since: float | None = None
    has_had_turn: bool = False  # since the last heartbeat
    unknown_tables: tuple[str, ...] = ()  # launched for these, but its configuration lacks them
    clock_offset_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """When a worker stops lingering, ends a turn, or gives up on conflicts."""

    linger_seconds: float = 60.0
    turn_slices: int = 8
    max_conflicts: int = 10


@dataclass(frozen=True, slots=True)
class WorkerInput:
    """Values from outside that events contain. `discovery_error`: why `tables` may be incomplete."""

    now: float
    jitter: float = 0.0
    tables: KnownTables | None = None
    position: Position | None = None
    backlog: Backlog | None = None
    run: RunSummary | None = None
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


def after_merge(worker: Worker, outcome: MergeOutcome, limits: Limits) -> Worker:
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
    """Return the worker after the heartbeat found during MERGE that it lost its slot: it stops and changes nothing."""
    return replace(worker, phase=Phase.END)


# --- events to the state, and its actions -----------------------------------------------------------------


def next_event(worker: Worker, worker_input: WorkerInput, limits: Limits) -> Event:
    """Return the worker's next event; MERGE and END have none."""
    me, now = worker.me, worker_input.now + worker.clock_offset_seconds
    match worker.phase:
        case Phase.START:
            return Started(now, me)
        case Phase.HEARTBEAT:
            return Leave(now, me) if worker_input.stopping else Heartbeat(now, me, worker.has_had_turn)
        case Phase.PICK:
            return Pick(now, me, worker_input.tables)
        case Phase.REPORT:
            turn = _turn(worker)
            planned = PlannedBacklog(worker_input.backlog, turn.dirty) if worker_input.backlog else None
            if turn.slices < limits.turn_slices and not worker_input.stopping:
                return Progressed(
                    now, me, turn.table, worker_input.position, turn.replay_id, turn.progress, planned
                )
            return TurnEnded(
                now,
                me,
                turn.table,
                worker_input.position,
                worker_input.run,
                worker_input.tables,
                releases_table=worker_input.stopping,
                replay_id=turn.replay_id,
                progress=turn.progress,
                planned=planned,
            )
        case Phase.REPLAYED:
            turn = _turn(worker)
            return Replayed(now, me, turn.table, turn.replay_id or "", turn.progress, worker_input.position)
        case Phase.COMPLETE:
            turn = _turn(worker)
            return Completed(
                now,
                me,
                turn.table,
                turn.dirty,
                turn.read_at,
                worker.head,
                worker_input.position,
                worker_input.run,
            )
        case Phase.FAIL:
            error = worker.error or ErrorResult(kind=Kind.TRANSIENT, message="unknown")
            turn = _turn(worker)
            return Failed(now, me, turn.table, error, worker_input.jitter, worker_input.run, turn.replay_id)
        case Phase.LINGER:
            return Leave(now, me) if worker_input.stopping else LingerPoll(now, me, worker_input.tables)
        case Phase.DECLINE:
            return Declined(
                now, me, worker.unknown_tables[0], worker_input.jitter, worker_input.discovery_error
            )
        case Phase.LEAVE:
            return Leave(now, me)
        case Phase.RESCAN:
            return Rescan(now, me, worker_input.tables)
        case Phase.MERGE | Phase.END:
            raise ValueError(f"a worker in phase {worker.phase} sends no event")
    assert_never(worker.phase)


def transition(worker: Worker, event: Event, action: Action, limits: Limits) -> Worker:
    """Return the worker after the state applied `event` and returned `action`."""
    idle_worker = Worker(worker.me, clock_offset_seconds=worker.clock_offset_seconds)
    match action:
        case StopWorker():
            return replace(idle_worker, phase=Phase.END)
        case SlotHeld(_, launched_at) if isinstance(event, Started):
            return replace(
                idle_worker, phase=Phase.HEARTBEAT, clock_offset_seconds=max(0.0, launched_at - event.now)
            )
        case SlotHeld(gen):
            return replace(idle_worker, me=replace(worker.me, gen=gen), phase=Phase.PICK)
        case MergeTable(table, dirty, replay):
            turn = worker.turn or TurnState(table, dirty, event.now)
            slices = 0 if isinstance(event, TurnEnded) else turn.slices
            turn = replace(turn, dirty=dirty, read_at=event.now, slices=slices, replay=replay, progress=None)
            return replace(idle_worker, phase=Phase.MERGE, turn=turn)
        case Idle():
            since = event.now if worker.idle_since is None else worker.idle_since
            if worker.phase is not Phase.LINGER or not _lingered_enough(action, event.now, since, limits):
                return replace(idle_worker, phase=Phase.LINGER, idle_since=since)
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
    """Decline the next unknown table, or leave after the last."""
    return replace(
        idle_worker, phase=Phase.DECLINE if unknown_tables else Phase.LEAVE, unknown_tables=unknown_tables
    )


def _lingered_enough(idle: Idle, now: float, since: float, limits: Limits) -> bool:
    """Return whether the linger time has passed and no waiting table becomes due within another one."""
    if idle.unknown_tables_due:
        return True
    expected = idle.due_at is not None and idle.due_at - now <= limits.linger_seconds
    return now - since >= limits.linger_seconds and not expected


def _turn(worker: Worker) -> TurnState:
    if worker.turn is None:
        raise ValueError(f"a worker in phase {worker.phase} must own a table")
    return worker.turn
