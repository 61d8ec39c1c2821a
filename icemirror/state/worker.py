"""A worker's side of the protocol as a pure automaton: what it tells the state, in which order.

    START ─► BEAT ─► PICK ─► MERGE ─► REPORT ─► MERGE …            (another slice)
               ▲      │        ├────► COMPLETE ─► BEAT             (the plan was empty)
               │      │        ├────► FAIL ─────► BEAT
               │      │        └────► REPLAYED ─► MERGE …          (what a person asked for is done)
               │      └─► LINGER ─► PICK                           (work came)
               │             ├────► LEAVE ─► RESCAN ─► PICK | END
               │             └────► DECLINE ─► DECLINE | LEAVE  (it came for a table that it does not know)
               └── lost or gave back the table: REPORT

`spark_job.worker.worker` performs the effects; the model check explores the same automaton.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from icemirror.errors import Kind
from icemirror.result import ErrorResult, Left, Position
from icemirror.state.actions import Action, Exit, Held, Idle, Lost, Merge, Released
from icemirror.state.events import (
    Beat,
    Completed,
    Event,
    Failed,
    Holder,
    Leave,
    Names,
    PassedBy,
    Pick,
    Progressed,
    Replayed,
    Retake,
    Started,
    TurnEnded,
    Wake,
)
from icemirror.state.replay import Replay, ReplayProgress
from icemirror.state.rows import Planned, RunSummary


class Doing(StrEnum):
    """What a worker does next."""

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
class Turn:
    """The table that the worker has, and the notices that an empty plan will cover. A replay comes before that."""

    table: str
    dirty: int
    read_at: float
    slices: int = 0
    conflicts: int = 0
    replay: Replay | None = None
    progress: ReplayProgress | None = None  # since it last told so

    @property
    def replay_id(self) -> str | None:
        """The request that it works on."""
        return self.replay.id if self.replay else None


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker between two effects. `behind_seconds`: what its clock lacks, for it cannot run before its launch."""

    me: Holder
    doing: Doing = Doing.START
    turn: Turn | None = None
    head: str = ""
    error: ErrorResult | None = None
    idle_since: float | None = None
    proven: bool = False  # has had a turn since it last told so
    unknown: tuple[str, ...] = ()  # tables that it was launched for, and has to leave to another
    behind_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """When a worker turns to something else."""

    linger_seconds: float = 60.0
    turn_slices: int = 8
    max_conflicts: int = 10


@dataclass(frozen=True, slots=True)
class Moment:
    """What the automaton cannot know by itself when it tells something. `blind`: why `tables` may not be all."""

    now: float
    jitter: float = 0.0
    tables: Names | None = None
    position: Position | None = None
    left: Left | None = None
    run: RunSummary | None = None
    stopping: bool = False
    blind: ErrorResult | None = None


# --- what became of a merge -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SliceDone:
    """A slice was committed, or replayed up to here; there may be more."""

    progress: ReplayProgress | None = None


@dataclass(frozen=True, slots=True)
class ReplayDone:
    """Nothing of the replay is left."""

    progress: ReplayProgress | None = None


@dataclass(frozen=True, slots=True)
class NothingLeft:
    """The plan was empty: the mirror holds all up to this head."""

    head: str


@dataclass(frozen=True, slots=True)
class Overtaken:
    """The mirror moved before the commit: plan again."""

    error: ErrorResult


@dataclass(frozen=True, slots=True)
class MergeFailed:
    """The table cannot be merged now."""

    error: ErrorResult


MergeOutcome = SliceDone | ReplayDone | NothingLeft | Overtaken | MergeFailed


def merged(worker: Worker, outcome: MergeOutcome, limits: Limits) -> Worker:
    """After MERGE."""
    turn = _turn(worker)
    match outcome:
        case SliceDone(progress):
            turn = replace(turn, slices=turn.slices + 1, conflicts=0, progress=progress)
            return replace(worker, doing=Doing.REPORT, turn=turn)
        case ReplayDone(progress):
            return replace(worker, doing=Doing.REPLAYED, turn=replace(turn, conflicts=0, progress=progress))
        case NothingLeft(head):
            return replace(worker, doing=Doing.COMPLETE, head=head)
        case Overtaken(error) if turn.conflicts >= limits.max_conflicts:
            return replace(worker, doing=Doing.FAIL, error=error)
        case Overtaken():
            return replace(worker, doing=Doing.REPORT, turn=replace(turn, conflicts=turn.conflicts + 1))
        case MergeFailed(error):
            return replace(worker, doing=Doing.FAIL, error=error)
    assert_never(outcome)


def fenced(worker: Worker) -> Worker:
    """After the heartbeat found, during MERGE, that the slot is another's: stop, touch nothing."""
    return replace(worker, doing=Doing.END)


# --- what is told to the state ----------------------------------------------------------------------------


def tell(worker: Worker, moment: Moment, limits: Limits) -> Event:
    """The event that the worker's next step is (any but MERGE and END)."""
    me, now = worker.me, moment.now + worker.behind_seconds
    match worker.doing:
        case Doing.START:
            return Started(now, me)
        case Doing.BEAT:
            return Leave(now, me) if moment.stopping else Beat(now, me, worker.proven)
        case Doing.PICK:
            return Pick(now, me, moment.tables)
        case Doing.REPORT:
            turn = _turn(worker)
            planned = Planned(moment.left, turn.dirty) if moment.left else None
            if turn.slices < limits.turn_slices and not moment.stopping:
                return Progressed(
                    now, me, turn.table, moment.position, turn.replay_id, turn.progress, planned
                )
            return TurnEnded(
                now,
                me,
                turn.table,
                moment.position,
                moment.run,
                moment.tables,
                give_back=moment.stopping,
                replay_id=turn.replay_id,
                progress=turn.progress,
                planned=planned,
            )
        case Doing.REPLAYED:
            turn = _turn(worker)
            return Replayed(now, me, turn.table, turn.replay_id or "", turn.progress, moment.position)
        case Doing.COMPLETE:
            turn = _turn(worker)
            return Completed(
                now, me, turn.table, turn.dirty, turn.read_at, worker.head, moment.position, moment.run
            )
        case Doing.FAIL:
            error = worker.error or ErrorResult(kind=Kind.TRANSIENT, message="unknown")
            turn = _turn(worker)
            return Failed(now, me, turn.table, error, moment.jitter, moment.run, turn.replay_id)
        case Doing.LINGER:
            return Leave(now, me) if moment.stopping else Wake(now, me, moment.tables)
        case Doing.DECLINE:
            return PassedBy(now, me, worker.unknown[0], moment.jitter, moment.blind)
        case Doing.LEAVE:
            return Leave(now, me)
        case Doing.RESCAN:
            return Retake(now, me, moment.tables)
        case Doing.MERGE | Doing.END:
            raise ValueError(f"a worker that is at {worker.doing} has nothing to tell")
    assert_never(worker.doing)


def told(worker: Worker, event: Event, answer: Action, limits: Limits) -> Worker:
    """After `event` was applied, with this answer."""
    free = Worker(worker.me, behind_seconds=worker.behind_seconds)
    match answer:
        case Exit():
            return replace(free, doing=Doing.END)
        case Held(_, launched_at) if isinstance(event, Started):
            return replace(free, doing=Doing.BEAT, behind_seconds=max(0.0, launched_at - event.now))
        case Held(gen):
            return replace(free, me=replace(worker.me, gen=gen), doing=Doing.PICK)
        case Merge(table, dirty, replay):
            turn = worker.turn or Turn(table, dirty, event.now)
            slices = 0 if isinstance(event, TurnEnded) else turn.slices
            turn = replace(turn, dirty=dirty, read_at=event.now, slices=slices, replay=replay, progress=None)
            return replace(free, doing=Doing.MERGE, turn=turn)
        case Idle():
            since = event.now if worker.idle_since is None else worker.idle_since
            if worker.doing is not Doing.LINGER or not _lingered_enough(answer, event.now, since, limits):
                return replace(free, doing=Doing.LINGER, idle_since=since)
            return _pass_by(free, answer.unknown)
        case Released() if isinstance(event, PassedBy):
            return _pass_by(free, worker.unknown[1:])
        case Released() if isinstance(event, Leave):
            # Asked to stop, a worker leaves what may have come meanwhile to the next sweep.
            return replace(free, doing=Doing.RESCAN if worker.doing is Doing.LEAVE else Doing.END)
        case Released() | Lost():
            return replace(free, doing=Doing.BEAT, proven=True)
        case _:
            raise ValueError(f"{answer} is no answer to {event}")


def _pass_by(free: Worker, unknown: tuple[str, ...]) -> Worker:
    """Says of each table that it was launched for and does not know that it is so, then leaves."""
    return replace(free, doing=Doing.DECLINE if unknown else Doing.LEAVE, unknown=unknown)


def _lingered_enough(idle: Idle, now: float, since: float, limits: Limits) -> bool:
    """Nothing came, and nothing that waits becomes due within the time that one lingers anyway."""
    if idle.strangers:
        return True
    expected = idle.due_at is not None and idle.due_at - now <= limits.linger_seconds
    return now - since >= limits.linger_seconds and not expected


def _turn(worker: Worker) -> Turn:
    if worker.turn is None:
        raise ValueError(f"a worker that is at {worker.doing} has a table")
    return worker.turn
