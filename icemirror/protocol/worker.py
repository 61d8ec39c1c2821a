"""The worker's side of the protocol as a pure automaton: which events it sends, and in which order.

    START ─► BEAT ─► PICK ─► MERGE ─► REPORT ─► MERGE …            (another slice)
               ▲      │        ├────► COMPLETE ─► BEAT             (the plan was empty)
               │      │        ├────► FAIL ─────► BEAT
               │      │        └────► REPLAYED ─► MERGE …          (the replay is complete)
               │      └─► LINGER ─► PICK                           (a table is due)
               │             ├────► LEAVE ─► RESCAN ─► PICK | END
               │             └────► DECLINE ─► DECLINE | LEAVE  (its configuration lacks a table it was launched for)
               └── lost or released the table: REPORT

`spark_job.worker.worker` performs the effects; the model check explores the same automaton.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from icemirror.errors import Kind
from icemirror.protocol.actions import Action, Held, Idle, Lost, MergeTable, Released, StopWorker
from icemirror.protocol.events import (
    Beat,
    Completed,
    Declined,
    Event,
    Failed,
    KnownTables,
    Leave,
    Pick,
    Progressed,
    Replayed,
    Retake,
    Started,
    TurnEnded,
    Wake,
    WorkerId,
)
from icemirror.protocol.replay import Replay, ReplayProgress
from icemirror.protocol.rows import PlannedBacklog, RunSummary
from icemirror.result import Backlog, ErrorResult, Position


class Phase(StrEnum):
    """What a worker does next. The arrows are drawn at the top of this module."""

    START = "start"
    BEAT = "beat"
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
    doing: Phase = Phase.START
    turn: TurnState | None = None
    head: str = ""
    error: ErrorResult | None = None
    idle_since: float | None = None
    proven: bool = False  # has had a turn since the last heartbeat
    unknown: tuple[str, ...] = ()  # tables that it was launched for and its configuration lacks
    clock_offset_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """When a worker stops lingering, ends a turn, or gives up on conflicts."""

    linger_seconds: float = 60.0
    turn_slices: int = 8
    max_conflicts: int = 10


@dataclass(frozen=True, slots=True)
class WorkerInput:
    """What the automaton needs from outside to form an event. `blind`: why `tables` may be incomplete."""

    now: float
    jitter: float = 0.0
    tables: KnownTables | None = None
    position: Position | None = None
    left: Backlog | None = None
    run: RunSummary | None = None
    stopping: bool = False
    blind: ErrorResult | None = None


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


def merged(worker: Worker, outcome: MergeOutcome, limits: Limits) -> Worker:
    """Return the worker after MERGE ended with this outcome."""
    turn = _turn(worker)
    match outcome:
        case SliceDone(progress):
            turn = replace(turn, slices=turn.slices + 1, conflicts=0, progress=progress)
            return replace(worker, doing=Phase.REPORT, turn=turn)
        case ReplayDone(progress):
            return replace(worker, doing=Phase.REPLAYED, turn=replace(turn, conflicts=0, progress=progress))
        case MergedToHead(head):
            return replace(worker, doing=Phase.COMPLETE, head=head)
        case MergeConflict(error) if turn.conflicts >= limits.max_conflicts:
            return replace(worker, doing=Phase.FAIL, error=error)
        case MergeConflict():
            return replace(worker, doing=Phase.REPORT, turn=replace(turn, conflicts=turn.conflicts + 1))
        case MergeFailed(error):
            return replace(worker, doing=Phase.FAIL, error=error)
    assert_never(outcome)


def fenced(worker: Worker) -> Worker:
    """Return the worker after the heartbeat found during MERGE that it lost its slot: it stops and changes nothing."""
    return replace(worker, doing=Phase.END)


# --- events to the state, and its answers -----------------------------------------------------------------


def next_event(worker: Worker, given: WorkerInput, limits: Limits) -> Event:
    """Return the worker's next event; MERGE and END have none."""
    me, now = worker.me, given.now + worker.clock_offset_seconds
    match worker.doing:
        case Phase.START:
            return Started(now, me)
        case Phase.BEAT:
            return Leave(now, me) if given.stopping else Beat(now, me, worker.proven)
        case Phase.PICK:
            return Pick(now, me, given.tables)
        case Phase.REPORT:
            turn = _turn(worker)
            planned = PlannedBacklog(given.left, turn.dirty) if given.left else None
            if turn.slices < limits.turn_slices and not given.stopping:
                return Progressed(now, me, turn.table, given.position, turn.replay_id, turn.progress, planned)
            return TurnEnded(
                now,
                me,
                turn.table,
                given.position,
                given.run,
                given.tables,
                give_back=given.stopping,
                replay_id=turn.replay_id,
                progress=turn.progress,
                planned=planned,
            )
        case Phase.REPLAYED:
            turn = _turn(worker)
            return Replayed(now, me, turn.table, turn.replay_id or "", turn.progress, given.position)
        case Phase.COMPLETE:
            turn = _turn(worker)
            return Completed(
                now, me, turn.table, turn.dirty, turn.read_at, worker.head, given.position, given.run
            )
        case Phase.FAIL:
            error = worker.error or ErrorResult(kind=Kind.TRANSIENT, message="unknown")
            turn = _turn(worker)
            return Failed(now, me, turn.table, error, given.jitter, given.run, turn.replay_id)
        case Phase.LINGER:
            return Leave(now, me) if given.stopping else Wake(now, me, given.tables)
        case Phase.DECLINE:
            return Declined(now, me, worker.unknown[0], given.jitter, given.blind)
        case Phase.LEAVE:
            return Leave(now, me)
        case Phase.RESCAN:
            return Retake(now, me, given.tables)
        case Phase.MERGE | Phase.END:
            raise ValueError(f"a worker in phase {worker.doing} sends no event")
    assert_never(worker.doing)


def transition(worker: Worker, event: Event, answer: Action, limits: Limits) -> Worker:
    """Return the worker after the state applied `event` and answered."""
    free = Worker(worker.me, clock_offset_seconds=worker.clock_offset_seconds)
    match answer:
        case StopWorker():
            return replace(free, doing=Phase.END)
        case Held(_, launched_at) if isinstance(event, Started):
            return replace(free, doing=Phase.BEAT, clock_offset_seconds=max(0.0, launched_at - event.now))
        case Held(gen):
            return replace(free, me=replace(worker.me, gen=gen), doing=Phase.PICK)
        case MergeTable(table, dirty, replay):
            turn = worker.turn or TurnState(table, dirty, event.now)
            slices = 0 if isinstance(event, TurnEnded) else turn.slices
            turn = replace(turn, dirty=dirty, read_at=event.now, slices=slices, replay=replay, progress=None)
            return replace(free, doing=Phase.MERGE, turn=turn)
        case Idle():
            since = event.now if worker.idle_since is None else worker.idle_since
            if worker.doing is not Phase.LINGER or not _lingered_enough(answer, event.now, since, limits):
                return replace(free, doing=Phase.LINGER, idle_since=since)
            return _decline_next(free, answer.unknown)
        case Released() if isinstance(event, Declined):
            return _decline_next(free, worker.unknown[1:])
        case Released() if isinstance(event, Leave):
            # A stopping worker leaves tables that became due meanwhile to the next sweep.
            return replace(free, doing=Phase.RESCAN if worker.doing is Phase.LEAVE else Phase.END)
        case Released() | Lost():
            return replace(free, doing=Phase.BEAT, proven=True)
        case _:
            raise ValueError(f"unexpected answer {answer} to {event}")


def _decline_next(free: Worker, unknown: tuple[str, ...]) -> Worker:
    """Decline the next unknown table, or leave after the last."""
    return replace(free, doing=Phase.DECLINE if unknown else Phase.LEAVE, unknown=unknown)


def _lingered_enough(idle: Idle, now: float, since: float, limits: Limits) -> bool:
    """Return whether the linger time has passed and no waiting table becomes due within another one."""
    if idle.unknown_tables_due:
        return True
    expected = idle.due_at is not None and idle.due_at - now <= limits.linger_seconds
    return now - since >= limits.linger_seconds and not expected


def _turn(worker: Worker) -> TurnState:
    if worker.turn is None:
        raise ValueError(f"a worker in phase {worker.doing} must own a table")
    return worker.turn
