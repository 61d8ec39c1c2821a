"""One seed: columns change, events arrive, merges, replays and rebuilds run, and some of them die."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from icemirror.config_file.load import load_settings
from icemirror.errors import CommitUnknown, Conflict, Transient
from icemirror.protocol.replay import Replay
from icemirror.settings import Settings
from icemirror.step_results import Merged
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.engine.engine import InProcessEngine, LazyEngine
from spark_job.rebuild.replay import replay_step
from tests.lab.mirrored_world import write_config
from tests.sim.crash_points import COMPACTION_POINTS, REBUILD_POINTS
from tests.sim.engine import snapshots
from tests.sim.engine.memory_catalog import Fault, MemoryCatalog, OneCatalog
from tests.sim.engine.memory_io import Died, MemoryIO
from tests.sim.engine.planting import PlantedDefect
from tests.sim.engine.process import MERGE_POINTS, CrashPoints, patched_product, restart
from tests.sim.engine.reader import Divergence
from tests.sim.engine.setting import Setting
from tests.sim.engine.strict import RecordedSkips, StrictPipeline
from tests.sim.evolve.judge import Judge
from tests.sim.evolve.source import SourceRecord, change_columns, first_schema

CHANGELOG, MIRROR = ("lab", "world_changelog"), ("lab", "world")
STEPS = 50
_PARTITIONS = ("", 'partition_by: ["bucket[2](id)"]', 'partition_by: ["p"]')


class RecordingCatalog(MemoryCatalog):
    """Records the changelog schema that it returned last, and passes created mirrors to the judge."""

    changelog_schema: Schema
    judge: Judge

    def create_table(self, identifier: Any, *args: Any, **more: Any) -> Table:
        table = super().create_table(identifier, *args, **more)
        if table.name() == MIRROR:
            self.judge.record_created(table.schema(), self.changelog_schema)
        return table

    def load_table(self, identifier: Any) -> Table:
        table = super().load_table(identifier)
        if table.name() == CHANGELOG:
            self.changelog_schema = table.schema()
        return table


@dataclass(frozen=True)
class Outcome:
    """The number of judged snapshots, and the trace."""

    snapshots: int
    trace: list[str]


class World:
    """`run` returns the trace, or raises the violated invariant."""

    def __init__(self, seed: int, defect: PlantedDefect | None = None) -> None:
        self.seed, self.defect = seed, defect or PlantedDefect(())
        self.dice = random.Random(seed)
        chosen = Setting.choose(self.dice)
        # Blocks of the default size: `verify` supports no other.
        self.setting = replace(chosen, kind="long", data_fan_in=3, data_most=256, block_rows=256)
        self.partition, self.drops = self.dice.choice(_PARTITIONS), self.dice.random() < 0.3
        self.trace: list[str] = [f"version {self.setting.version}, {self.partition!r}, drops: {self.drops}"]
        self.points, self.io, self.record = CrashPoints(), MemoryIO(), SourceRecord()
        self.catalog = RecordingCatalog(self.io, self._observe)
        self.judge = self.catalog.judge = Judge(
            self.io, self.record, self.drops, 2 if '"p"' in self.partition else None
        )
        self._found: list[Exception] = []
        self._full: Replay | None = None
        self._staged: list[Schema] = []
        self._requests = 0

    def run(self, steps: int = STEPS) -> Outcome:
        """Run this many steps, then finish without faults."""
        snapshots.clear_caches()
        with patched_product(self.setting, self.points, self.seed), self.defect.planted():
            settings = _settings(
                f"format_version: {self.setting.version}\non_dropped_column: {'drop' if self.drops else 'keep'}\n"
                f"{self.partition}",
                f"batch_size: {self.setting.batch_size}\n",
            )
            catalogs = OneCatalog(settings)
            catalogs._open[None] = self.catalog
            engine = LazyEngine(lambda: InProcessEngine(self.setting.shards))
            self.pipeline = StrictPipeline(settings, catalogs, engine, skipped_files=RecordedSkips())
            self.table = settings.tables[0]
            self.catalog.create_table(CHANGELOG, first_schema(), properties={"format-version": "2"})
            if self.judge.partitioned_by is not None:  # the column must exist when the mirror is created
                self.trace += [self._append(), self._merge()]
                self._raise_found()
            for _ in range(steps):
                self.step()
            self._end()
        return Outcome(self.judge.checked, self.trace)

    def step(self) -> None:
        """Run one step."""
        actions: list[tuple[Callable[[], str | None], int]] = [
            (self._change, 24),
            (self._append, 26),
            (self._merge, 24),
            (self._merge_and_die, 6),
            (self._merge_with_fault, 6),
            (self._replay, 5),
            (self._rebuild, 6),
            (self._verify, 4),
            (self._restart, 2),
        ]
        action = self.dice.choices([choice for choice, _ in actions], [weight for _, weight in actions])[0]
        index = len(self.trace)
        self.trace.append(action.__name__)
        self.trace[index] = action() or f"{action.__name__}: nothing to do"
        self._raise_found()

    @property
    def changelog(self) -> Table:
        return MemoryCatalog.load_table(self.catalog, CHANGELOG)

    @property
    def mirror(self) -> Table | None:
        return self.catalog.load_table(MIRROR) if MIRROR in self.catalog.tables else None

    def _observe(self, before: TableMetadata, after: TableMetadata) -> None:
        if after.location.endswith("/world"):
            try:
                self.judge.judge(before, after, self.catalog.changelog_schema, self._staged)
            except Exception as error:  # raised later: the commit would treat it as a lost response
                self._found.append(error)

    def _raise_found(self) -> None:
        for error in self._found:
            raise error

    def _change(self) -> str | None:
        return change_columns(self.changelog, self.record, self.dice)

    def _append(self) -> str:
        return self.record.append(self.changelog, self.dice)

    def _merge(self) -> str:
        self.points.expect_nothing()
        return self._describe_outcome("merge", self._advance)

    def _merge_and_die(self) -> str:
        point = self.dice.choice((*MERGE_POINTS, *COMPACTION_POINTS))
        self.points.expect(point, self.dice.choice([1, 1, 2]), self._die)
        return self._describe_outcome(f"merge to die at {point}", self._advance)

    def _merge_with_fault(self) -> str:
        self.points.expect_nothing()
        self.catalog.fault = self.dice.choice([fault for fault in Fault if fault is not Fault.DELAYED])
        entry = self._describe_outcome(f"merge whose commit is {self.catalog.fault}", self._advance)
        self.catalog.fault = None
        return entry

    def _advance(self) -> str:
        for slices in range(self.dice.choice([1, 2, 50])):
            if not isinstance(self.pipeline.advance(self.table), Merged):
                return f"{slices} slices, up to date"
        return "slices"

    def _describe_outcome(self, what: str, do: Callable[[], str]) -> str:
        faulty = self.catalog.fault is not None
        try:
            return f"{what}: {do()}"
        except Died:
            self.io.dead = False
            restart()
            return f"{what}: died"
        except (CommitUnknown, Transient) as error:
            if not faulty:
                raise
            return f"{what}: {error}"

    def _die(self, name: str) -> None:
        self.io.dead = True
        raise Died(name)

    def _replay(self) -> str | None:
        order = [snapshot.snapshot_id for snapshot in self.changelog.metadata.snapshots]
        if not order or self.mirror is None or self.mirror.current_snapshot() is None:
            return None
        self._requests += 1
        request = Replay(f"range-{self._requests}", 0.0, from_snapshot=self.dice.choice(order))
        return self._describe_outcome("replay", lambda: self._replay_all(request, 50))

    def _rebuild(self) -> str | None:
        if self.mirror is None or self.mirror.current_snapshot() is None:
            return None
        if self._full is None:
            self._requests += 1
            self._full, self._staged = Replay(f"full-{self._requests}", 0.0, full=True), []
        if self.dice.random() < 0.3:
            point = self.dice.choice((*MERGE_POINTS, *REBUILD_POINTS))
            self.points.expect(point, self.dice.choice([1, 2]), self._die)
        full = self._full
        return self._describe_outcome("rebuild", lambda: self._replay_all(full, self.dice.choice([1, 2, 50])))

    def _replay_all(self, request: Replay, steps: int) -> str:
        for number in range(steps):
            with suppress(Conflict):
                try:
                    step = replay_step(self.pipeline, self.table, request)
                finally:
                    if request.full:
                        self._staged.append(self.catalog.changelog_schema)
                request = replace(request, progress=step.progress)
                if request.full:
                    self._full = None if step.done else request
                if step.done:
                    return f"done after {number + 1} steps"
        return f"{steps} steps"

    def _verify(self) -> str | None:
        if self.mirror is None or self.mirror.current_snapshot() is None:
            return None
        report = verify_table(self.pipeline, self.table, VerifyOptions(deep=True))
        if not report.equal:
            raise Divergence(f"verify finds {report.findings}")
        return "verify"

    def _restart(self) -> str:
        restart()
        return "restart"

    def _end(self) -> None:
        self.trace.append("the end")
        with suppress(CommitFailedException):
            self.catalog.apply_delayed()
        self.points.expect_nothing()
        for _ in range(1000):
            if not isinstance(self.pipeline.advance(self.table), Merged):
                break
        self._raise_found()
        if self.judge.merged != len(self.record.files):
            raise Divergence(f"{self.judge.merged} of {len(self.record.files)} files are merged at the end")
        self._verify()
        self._raise_found()


@lru_cache(maxsize=64)
def _settings(options: str, extra_config: str) -> Settings:
    with tempfile.TemporaryDirectory(prefix="icemirror-sim-") as folder:
        return load_settings(write_config(Path(folder), options, extra_config), os.environ)


def run_seed(seed: int, defect: PlantedDefect | None = None) -> Outcome:
    """Run a seed; an error has the trace in its notes."""
    world = World(seed, defect)
    try:
        return world.run()
    except Exception as error:
        error.add_note("\n".join(world.trace))
        raise
