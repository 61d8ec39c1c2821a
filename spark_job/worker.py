"""A worker: performs what the automaton in `icemirror.state.worker` decides, until it has to end."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from icemirror.crash import reach
from icemirror.errors import Conflict, IcemirrorError, Kind
from icemirror.result import Advance, ErrorResult, Merged, Position, SliceResult, TableResult, UpToDate
from icemirror.state.actions import Exit
from icemirror.state.apply import apply
from icemirror.state.events import Beat, Holder, Names
from icemirror.state.policy import Policy
from icemirror.state.rows import RunSummary
from icemirror.state.store import RunResult, Store
from icemirror.state.worker import (
    Doing,
    Limits,
    MergeFailed,
    MergeOutcome,
    Moment,
    NothingLeft,
    Overtaken,
    SliceDone,
    Worker,
    fenced,
    merged,
    tell,
    told,
)
from icemirror.telemetry.logs import bind, get_log

_LOOK_SECONDS = 0.25  # how often a lingering worker looks for work
_BEATS_A_LEASE = 4

log = get_log(__name__)


@dataclass
class _Turn:
    """What a worker has done on the table that it has."""

    table: str
    started_at: float
    began: float
    slices: list[SliceResult] = field(default_factory=list)
    position: Position | None = None
    error: ErrorResult | None = None

    @property
    def outcome(self) -> str:
        return "failed" if self.error else "merged" if self.slices else "up-to-date"


@dataclass(frozen=True)
class Surroundings:
    """What a worker lives in. `advance` merges one slice of a table; `tables` are those that it knows."""

    store: Store
    policy: Policy
    limits: Limits
    advance: Callable[[str], Advance]
    tables: Callable[[], Names]
    stopping: Callable[[], bool]
    report: Callable[[BaseException], None] = lambda _: None
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


def run_worker(me: Holder, around: Surroundings) -> None:
    """Takes the slot (or finds it taken and ends), serves tables, lingers, and gives the slot back."""
    worker = Worker(me)
    turn: _Turn | None = None
    with bind(run=me.run_id):
        while worker.doing is not Doing.END:
            if worker.doing is Doing.MERGE:
                turn = turn or _open_turn(worker, around)
                with bind(table=turn.table):
                    worker = _merge(worker, turn, around)
                continue
            if worker.doing is Doing.LINGER:
                around.sleep(_LOOK_SECONDS)
            doing = worker.doing
            moment = _moment(worker, turn, around)
            event = tell(worker, moment, around.limits)
            reach(f"worker-{doing}")
            (answer,) = apply(around.store, event, around.policy, around.sleep).actions
            reach(f"worker-{doing}-done")
            worker = told(worker, event, answer, around.limits)
            if turn is not None and worker.doing is not Doing.MERGE:
                _close_turn(turn, me.run_id, around)
                turn = None
    log.info("worker ended")


def _merge(worker: Worker, turn: _Turn, around: Surroundings) -> Worker:
    lost = threading.Event()
    with _heartbeat(worker.me, around, lost):
        outcome = _advance(turn, around)
    return fenced(worker) if lost.is_set() else merged(worker, outcome, around.limits)


def _advance(turn: _Turn, around: Surroundings) -> MergeOutcome:
    try:
        step = around.advance(turn.table)
    except Conflict as error:
        return Overtaken(_remember(turn, error.kind, error))
    except IcemirrorError as error:
        log.error("merge failed", error=error)  # noqa: TRY400 (our own log, which adds the traceback)
        around.report(error)
        return MergeFailed(_remember(turn, error.kind, error))
    except Exception as error:  # a defect of ours, or of a library: this table fails, the others go on
        log.error("merge failed unexpectedly", error=error)  # noqa: TRY400
        around.report(error)
        return MergeFailed(_remember(turn, Kind.TRANSIENT, error))
    turn.error = None
    turn.position = step.position
    match step:
        case Merged():
            turn.slices.append(step.slice)
            return SliceDone()
        case UpToDate():
            return NothingLeft(step.head)


def _remember(turn: _Turn, kind: Kind, error: Exception) -> ErrorResult:
    message = str(error) if isinstance(error, IcemirrorError) else f"{type(error).__name__}: {error}"
    turn.error = ErrorResult(kind=kind, message=message)
    return turn.error


@contextmanager
def _heartbeat(me: Holder, around: Surroundings, lost: threading.Event) -> Iterator[None]:
    """Renews the lease while a slice runs; sets `lost` when the slot is another's."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(around.policy.lease_seconds / _BEATS_A_LEASE):
            try:
                (answer,) = apply(around.store, Beat(around.clock(), me), around.policy).actions
            except IcemirrorError as error:
                log.warning("heartbeat failed", reason=str(error))
                continue
            if isinstance(answer, Exit):
                lost.set()
                return

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _open_turn(worker: Worker, around: Surroundings) -> _Turn:
    if worker.turn is None:
        raise ValueError("a worker that merges has a table")
    return _Turn(worker.turn.table, around.clock(), time.perf_counter())


def _close_turn(turn: _Turn, run_id: str, around: Surroundings) -> None:
    result = TableResult(
        table=turn.table,
        outcome=turn.outcome,  # type: ignore[arg-type]  # one of the literals
        live_rows=turn.position.live_rows if turn.position else None,
        cursor=turn.position.cursor if turn.position else None,
        slices=tuple(turn.slices),
        seconds=round(time.perf_counter() - turn.began, 4),
        error=turn.error,
    )
    around.store.record_result(RunResult(run_id, around.clock(), result))


def _moment(worker: Worker, turn: _Turn | None, around: Surroundings) -> Moment:
    now = around.clock()
    moment = Moment(
        now=now,
        jitter=random.random(),  # noqa: S311 (spreads retries)
        tables=around.tables(),
        stopping=around.stopping(),
    )
    if turn is None:
        return moment
    summary = RunSummary(
        run_id=worker.me.run_id,
        started_at=turn.started_at,
        ended_at=now,
        outcome=turn.outcome,  # type: ignore[arg-type]  # one of the literals
        events=sum(part.events for part in turn.slices),
    )
    return replace(moment, position=turn.position, run=summary)
