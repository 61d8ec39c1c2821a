"""A worker on a real store, with scripted results of `advance` and a clock that moves when the worker sleeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from icemirror.protocol.events import (
    Dispatch,
    Noticed,
    ReplayRequested,
    WorkerId,
)
from icemirror.protocol.policy import Policy
from icemirror.protocol.replay import Replay, ReplayStep
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import Rows, SlotId, SlotRow, TableRow
from icemirror.protocol.worker import WorkerLimits
from icemirror.result import SliceResult
from icemirror.step_results import Backlog, Merged, MirrorStatus, NothingToMerge, StepResult
from icemirror.stores.apply import apply
from icemirror.stores.sqlite import SqliteStore
from spark_job.worker.worker import ServedTables, WorkerDependencies, run_worker
from tests.support.fake_tables import FakeTables
from tests.unit.icemirror.protocol.samples import OPTIONS

POLICY = Policy(quiet_seconds=0.0, backoff_seconds=1000.0, max_backoff_seconds=1000.0)
SLOT = SlotId("default", 0)
POSITION = MirrorStatus(cursor=None, live_rows=7, index_bytes=3)


def slice_done(events: int = 5, backlog: Backlog | None = None) -> Merged:
    figures = dict.fromkeys(
        ["snapshot_id", "inserted", "updated", "deleted", "stale", "unchanged", "data_files", "delete_files"],
        0,
    )
    sizes = dict.fromkeys(["data_bytes", "delete_bytes", "index_bytes"], 0)
    result = SliceResult(events=events, seconds=0.1, seconds_by_step={}, **figures, **sizes)
    return Merged(slice=result, mirror_status=POSITION, backlog=backlog)


UP_TO_DATE = NothingToMerge(head_location="m9", mirror_status=POSITION)
Step = StepResult | Exception | Callable[[], object]


class Bench:
    """A launched slot, and the scripted results of `advance`."""

    def __init__(self, folder: Path) -> None:
        self.store = SqliteStore(folder / "state.db")
        self.now = 1000.0
        self.plans: dict[str, list[Step]] = {}
        self.calls: list[str] = []
        self.replays: list[ReplayStep | Exception] = []
        self.reported: list[BaseException] = []
        self.stopping = False
        self.tables: frozenset[str] | None = None
        self.policy = POLICY
        self.linger_seconds = 1.0
        self.served: ServedTables | None = None  # instead of the scripted results

    def notice(self, name: str) -> None:
        apply(self.store, Noticed(self.now, name, OPTIONS), POLICY)

    def launch(self) -> WorkerId:
        slot = apply(self.store, Dispatch(self.now, "default"), POLICY).new_row
        assert isinstance(slot, SlotRow)
        return WorkerId(SLOT, slot.gen, "run-1")

    def advance(self, name: str) -> StepResult:
        self.calls.append(name)
        step: Step = self.plans[name].pop(0) if self.plans.get(name) else UP_TO_DATE
        if callable(step):
            step()
            return self.advance(name)
        if isinstance(step, Exception):
            raise step
        return step

    def replay(self, name: str, replay: Replay) -> ReplayStep:
        self.calls.append(f"{name} {replay.id} {replay.progress.mark if replay.progress else ''}")
        step = self.replays.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def request_replay(self, name: str, replay: Replay) -> None:
        apply(self.store, ReplayRequested(self.now, name, OPTIONS, replay), POLICY)

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)

    def run(self, me: WorkerId | None = None, max_slices_per_turn: int = 8) -> None:
        dependencies = WorkerDependencies(
            store=self.store,
            policy=self.policy,
            limits=WorkerLimits(
                linger_seconds=self.linger_seconds, max_slices_per_turn=max_slices_per_turn, max_conflicts=2
            ),
            tables=self.served
            or FakeTables(lambda: self.tables or frozenset(self.rows().tables), self.advance, self.replay),
            stopping=lambda: self.stopping,
            report=self.reported.append,
            clock=lambda: self.now,
            sleep=self.sleep,
            jitter=lambda: 0.0,
        )
        run_worker(me or self.launch(), dependencies)

    def rows(self) -> Rows:
        return self.store.load(ALL_ROWS)

    def table(self, name: str = "t") -> TableRow:
        return self.rows().tables[name]

    def results(self) -> list[tuple[str, str, int]]:
        page = self.store.results_since("")
        return [
            (run.table_result.table, run.table_result.outcome, len(run.table_result.slices))
            for run in page.results
        ]
