"""Tables, triggers, a store and a platform, driven by a seed until everything is merged.

Invariants:
  a token is launched once on the platform, whatever the result of its launch, unless a user has deleted its run
  a worker that is alive, running and within its lease keeps its slot; the slot of a queued run is not freed
  every commit reaches its mirror once, in order
  without further faults all commits are merged, all slots become free, all runs end, and launches are few
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icemirror.config_file.load import load_settings
from icemirror.errors import Conflict, Transient
from icemirror.protocol.policy import Policy
from icemirror.protocol.row_selection import ALL_ROWS, RowSelection
from icemirror.protocol.rows import Row, Rows, SlotRow, SlotState
from icemirror.protocol.worker import WorkerLimits
from icemirror.result import SliceResult
from icemirror.settings import TableSettings
from icemirror.step_results import Merged, MirrorStatus, NothingToMerge, StepResult
from icemirror.stores.store import Store, TurnResult
from icemirror.telemetry.metrics import NoMetrics
from spark_job.worker.run_arguments import read_arguments
from spark_job.worker.worker import WorkerDependencies, run_worker
from tests.sim.launchers.platforms import OnEmr, OnKubernetes, Platform
from tests.sim.launchers.schedule import Process, Schedule
from tests.sim.protocol.toy_lake import CONFIG, NAMES, NO_FIGURES
from tests.support.fake_tables import FakeTables
from trigger.dispatch.dispatcher import Dispatcher

POLICY = Policy(
    lease_seconds=60.0,
    launch_lease_seconds=10.0,
    max_failures=5,
    quiet_seconds=0.5,
    max_wait_seconds=5.0,
    scale_out_seconds=5.0,
    backoff_seconds=1.0,
    max_backoff_seconds=30.0,
    probation_seconds=60.0,
    recheck_seconds=1e9,
)
LIMITS = WorkerLimits(linger_seconds=3.0, max_slices_per_turn=2)
MAX_STEPS = 8_000  # after the last commit and the last fault; usually at most 1,300
MAX_EFFECTS = 30  # a doomed process reaches at most this many more


def is_varied(seed: int) -> bool:
    """Return whether workers poll the change token and some know fewer tables: every other seed from 301 on."""
    return seed > 300 and seed % 2 == 1


class Broken(AssertionError):
    """An invariant is violated."""


class Lake:
    """A lake in memory: changelogs are numbers, mirrors are lists; every read and every commit is an effect."""

    def __init__(self, pause: Callable[[], None]) -> None:
        self.heads = dict.fromkeys(NAMES, 0)
        self.mirrors: dict[str, list[int]] = {name: [] for name in NAMES}
        self.failures = 0
        self._pause = pause

    def advance(self, name: str) -> StepResult:
        self._pause()
        located = list(self.mirrors[name])
        self._pause()
        head = self.heads[name]
        if self.failures:
            self.failures -= 1
            raise Transient("the storage did not answer")
        if len(located) == head:
            return NothingToMerge(head_location=f"m{head}", mirror_status=_position(located))
        self._pause()
        if self.mirrors[name] != located:
            raise Conflict(f"{name} moved")
        self.mirrors[name] = [*located, len(located) + 1]
        self._pause()
        result = SliceResult(
            snapshot_id=len(located) + 1, events=1, inserted=1, seconds=0.0, seconds_by_step={}, **NO_FIGURES
        )
        return Merged(slice=result, mirror_status=_position(self.mirrors[name]))

    def merged(self) -> bool:
        return all(len(self.mirrors[name]) == head for name, head in self.heads.items())


def _position(merged: list[int]) -> MirrorStatus:
    return MirrorStatus(cursor=None, live_rows=len(merged), index_bytes=0)


class SimStore:
    """The real store, suspended around every call; writes of triggers are checked."""

    def __init__(self, store: Store, world: World) -> None:
        self._store, self._world = store, world

    def load(self, reads: RowSelection) -> Rows:
        self._world.schedule.pause()
        rows = self._store.load(reads)
        self._world.schedule.pause()
        return rows

    def compare_and_set(self, row: Row) -> bool:
        self._world.schedule.pause()
        before = self._store.load(ALL_ROWS)
        done = self._store.compare_and_set(row)
        if done and isinstance(row, SlotRow):
            self._world.judge(before.slot(row.id), row)
        self._world.schedule.pause()
        return done

    def change_token(self) -> str:
        if not is_varied(self._world.seed):
            return ""
        self._world.schedule.pause()
        return self._store.change_token()

    def record_result(self, result: TurnResult) -> None:
        self._world.schedule.pause()
        self._store.record_result(result)


class SimRegistry:
    """The tables, with heads from the lake."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.tables = world.tables
        self.groups = frozenset(table.group for table in world.tables)

    def names(self, group: str) -> frozenset[str]:
        return frozenset(table.name for table in self.tables if table.group == group)

    def poll_heads(self, _: float) -> dict[str, str]:
        self._world.schedule.pause()
        return {name: f"m{head}" for name, head in self._world.lake.heads.items()}


@dataclass
class World:
    """The world of one seed."""

    seed: int
    folder: Path
    store: Store
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.schedule = Schedule(self.seed)
        rnd = self.schedule.random
        (self.folder / "lake.yaml").write_text(CONFIG.format(folder=self.folder))
        self.tables: tuple[TableSettings, ...] = load_settings(self.folder / "lake.yaml", {}).tables
        self.lake = Lake(self.schedule.pause)
        self.commits, self.faults = rnd.randint(2, 8), rnd.choice([0, 2, 5, 10])
        self.slots = rnd.choice([1, 1, 2])
        self.fault_count = self.faults
        self.more = random.Random(f"more {self.seed}")
        self.old = self.old_count = self.more.choice([0, 0, 1, 3]) if is_varied(self.seed) else 0
        self.policy = Policy(**{**_fields(POLICY), "slots": self.slots})
        self.platform = self._platform(rnd.choice(["emr", "emr by name", "kubernetes"]))
        self.triggers = [self._trigger(n) for n in range(rnd.choice([1, 2]))]

    def _platform(self, kind: str) -> Platform:
        self.counts[kind] += 1
        if kind == "kubernetes":
            return OnKubernetes(self.schedule, self._start, self.folder)
        return OnEmr(self.schedule, self._start, self.folder, exposes_run_id=kind == "emr")

    # --- processes -----------------------------------------------------------------------------------------

    def _trigger(self, number: int) -> Process:
        dispatcher = Dispatcher(
            registry=SimRegistry(self),  # type: ignore[arg-type]
            store=SimStore(self.store, self),  # type: ignore[arg-type]
            policy=self.policy,
            launcher=self.platform.launcher(),
            config="lake.yaml",
            metrics=NoMetrics(),
            clock=self.schedule.clock,
            jitter=self.schedule.random.random,
        )

        def watch() -> None:
            while True:
                dispatcher.sweep()
                self.schedule.sleep(self.schedule.random.uniform(0.5, 3.0))

        return self.schedule.spawn(f"trigger-{number}", watch)

    def _start(self, run_id: str, arguments: list[str], environ: dict[str, str]) -> Process:
        launched = read_arguments(arguments, environ)
        self.counts["jobs"] += 1
        known_tables = self._known_tables()

        def work() -> None:
            run_worker(
                launched.worker_id,
                WorkerDependencies(
                    store=SimStore(self.store, self),  # type: ignore[arg-type]
                    policy=self.policy,
                    limits=LIMITS,
                    tables=FakeTables(lambda: known_tables, self.lake.advance),
                    stopping=lambda: False,
                    clock=self.schedule.clock,
                    sleep=self.schedule.sleep,
                    jitter=self.schedule.random.random,
                ),
            )

        return self.schedule.spawn(f"worker {run_id}", work)

    def _known_tables(self) -> frozenset[str]:
        """Return the tables of the next job; some configurations are older than the trigger's."""
        if not self.old or self.more.random() < 0.5:
            return frozenset(NAMES)
        self.old -= 1
        self.counts["job with older settings"] += 1
        return frozenset(NAMES[1:])

    # --- steps --------------------------------------------------------------------------------------------

    def run(self) -> Counter[str]:
        """Run until everything is merged. Raise `Broken` if an invariant is violated or it never ends."""
        try:
            left = MAX_STEPS
            while not self._quiet():
                self._step()
                left = MAX_STEPS if self.commits or self.faults else left - 1
                if not left:
                    raise Broken(f"not done {MAX_STEPS} steps after the last fault: {self._rows()}")
            self._judge_end()
            return self.counts
        finally:
            self.schedule.close()

    def _step(self) -> None:
        rnd = self.schedule.random
        what = rnd.random()
        if what < 0.02 and self.commits:
            self.commits -= 1
            self.lake.heads[rnd.choice(NAMES)] += 1
        elif what < 0.03 and self.faults:
            self.faults -= self._fault(rnd.choice(FAULTS))
        elif what < 0.06:
            self.platform.step()
        self.schedule.step()
        for number, trigger in enumerate(self.triggers):
            if not trigger.alive:
                self.triggers[number] = self._trigger(number)

    def _fault(self, kind: str) -> bool:
        """Inject the fault; return False if there is nothing to inject it into."""
        rnd, platform = self.schedule.random, self.platform
        living = platform.living()
        match kind:
            case "trigger dies":
                rnd.choice(self.triggers).dies_in = rnd.randint(1, MAX_EFFECTS)
            case "worker dies":
                workers = [
                    run.process for run in platform.simulated.values() if run.process and run.process.alive
                ]
                if not workers:
                    return False
                rnd.choice(workers).dies_in = rnd.randint(1, MAX_EFFECTS)
            case "lost" | "throttled" | "failed":
                platform.fail_next_call(kind)
            case "never starts":
                queued = [run for run in living if platform.state(run) == "queued"]
                if not queued:
                    return False
                if rnd.random() < 0.5:
                    platform.set(rnd.choice(queued), "bad")
                else:
                    platform.alive(run := rnd.choice(queued))
                    platform.simulated[run].never_starts = True
            case "cancelled by hand":
                if not living:
                    return False
                platform.cancel_as_user(rnd.choice(living))
            case "merge fails":
                self.lake.failures += 1
        self.counts[kind] += 1
        return True

    # --- invariants ---------------------------------------------------------------------------------------

    def judge(self, before: SlotRow, after: SlotRow) -> None:
        """Check that the platform knows a slot's run, and that a freed slot has no healthy or queued run."""
        if after.state is SlotState.RUNNING and self._run_of(str(after.run_id)) is None:
            raise Broken(f"{after.run_id} holds a slot, but the platform does not know the run")
        by_trigger = self.schedule.current.startswith("trigger")
        if not by_trigger or after.state is not SlotState.FREE or before.run_id is None:
            return
        run_id = self._run_of(before.run_id)
        if run_id is None or self.platform.state(run_id) in ("ended", "ending"):
            return
        if before.state is SlotState.LAUNCHING:
            raise Broken(f"the slot of {run_id} was freed while it was {self.platform.state(run_id)}")
        if self.platform.alive(run_id) and self.schedule.now < before.lease_until:
            raise Broken(f"{run_id} lost its slot although it is healthy")

    def _run_of(self, run_id: str) -> str | None:
        """Return the platform's id for the run id that a job uses."""
        platform = self.platform
        by_name = dict(zip(platform.names(), platform.runs(), strict=False))
        return run_id if run_id in platform.runs() else by_name.get(run_id)

    def _rows(self) -> Rows:
        return self.store.load(ALL_ROWS)

    def _quiet(self) -> bool:
        if self.commits or self.faults or not self.lake.merged() or self.platform.living():
            return False
        rows = self._rows()
        if any(slot.state is not SlotState.FREE for slot in rows.slots.values()):
            return False
        return all(row.dirty == row.covered and row.owner is None for row in rows.tables.values())

    def _judge_end(self) -> None:
        for name in NAMES:
            if self.lake.mirrors[name] != list(range(1, self.lake.heads[name] + 1)):
                raise Broken(f"{name}: {self.lake.mirrors[name]}")
        names = self.platform.names()
        if any(count > 1 for count in (Counter(names) - self.platform.deleted).values()):
            raise Broken(f"a token was launched twice: {names}")
        most = sum(self.lake.heads.values()) + 2 * (self.fault_count + self.old_count) + self.slots
        if len(names) > most:
            raise Broken(f"{len(names)} launches for {sum(self.lake.heads.values())} commits")
        self.counts["launches"] += len(names)
        self.counts["commits"] += sum(self.lake.heads.values())


FAULTS = (
    "trigger dies",
    "worker dies",
    "lost",
    "throttled",
    "failed",
    "never starts",
    "cancelled by hand",
    "merge fails",
)


def _fields(policy: Policy) -> dict[str, Any]:
    return {name: getattr(policy, name) for name in policy.__slots__}
