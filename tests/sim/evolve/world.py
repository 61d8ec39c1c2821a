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
from icemirror.result import Merged
from icemirror.settings import Settings
from spark_job.engine.engine import InProcessEngine, LazyEngine
from spark_job.inspect.verify.verify_table import VerifyOptions, verify_table
from spark_job.rebuild.replay import replay_step
from tests.mirrors import write_config
from tests.sim.engine import snapshots
from tests.sim.engine.memory_catalog import Fault, MemoryCatalog, OneCatalog
from tests.sim.engine.memory_io import Died, MemoryIO
from tests.sim.engine.planting import PlantedMistake
from tests.sim.engine.process import COMPACTION_NAMES, NAMES, Points, restart, stage
from tests.sim.engine.reader import Divergence
from tests.sim.engine.replays import OWN_NAMES
from tests.sim.engine.setting import Setting
from tests.sim.engine.strict import RecordedSkips, Strict
from tests.sim.evolve.judge import Judge
from tests.sim.evolve.source import Memory, change_columns, first_schema

CHANGELOG, MIRROR = ("lab", "world_changelog"), ("lab", "world")
STEPS = 50
_PARTITIONS = ("", 'partition_by: ["bucket[2](id)"]', 'partition_by: ["p"]')


class ShownCatalog(MemoryCatalog):
    """Records the changelog schema that it returned last, and reports created mirrors to the judge."""

    shown: Schema
    judge: Judge

    def create_table(self, identifier: Any, *args: Any, **more: Any) -> Table:
        table = super().create_table(identifier, *args, **more)
        if table.name() == MIRROR:
            self.judge.made(table.schema(), self.shown)
        return table

    def load_table(self, identifier: Any) -> Table:
        table = super().load_table(identifier)
        if table.name() == CHANGELOG:
            self.shown = table.schema()
        return table


@dataclass(frozen=True)
class Outcome:
    """Judged snapshots, and what happened."""

    snapshots: int
    story: list[str]


class World:
    """`run` returns the whole story, or raises a violation."""

    def __init__(self, seed: int, bug: PlantedMistake | None = None) -> None:
        self.seed, self.bug = seed, bug or PlantedMistake(())
        self.dice = random.Random(seed)
        chosen = Setting.choose(self.dice)
        # Blocks of the usual size: `verify` knows no other.
        self.setting = replace(chosen, kind="long", data_fan_in=3, data_most=256, block_rows=256)
        self.partition, self.drops = self.dice.choice(_PARTITIONS), self.dice.random() < 0.3
        self.story: list[str] = [f"version {self.setting.version}, {self.partition!r}, drops: {self.drops}"]
        self.points, self.io, self.memory = Points(), MemoryIO(), Memory()
        self.catalog = ShownCatalog(self.io, self._observe)
        self.judge = self.catalog.judge = Judge(
            self.io, self.memory, self.drops, 2 if '"p"' in self.partition else None
        )
        self._found: list[Exception] = []
        self._full: Replay | None = None
        self._staged: list[Schema] = []
        self._asked = 0

    def run(self, steps: int = STEPS) -> Outcome:
        """Run this many steps, then finish without faults."""
        snapshots.forget()
        with stage(self.setting, self.points, self.seed), self.bug.planted():
            settings = _settings(
                f"format_version: {self.setting.version}\non_dropped_column: {'drop' if self.drops else 'keep'}\n"
                f"{self.partition}",
                f"batch_size: {self.setting.batch_size}\n",
            )
            catalogs = OneCatalog(settings)
            catalogs._open[None] = self.catalog
            engine = LazyEngine(lambda: InProcessEngine(self.setting.shards))
            self.pipeline = Strict(settings, catalogs, engine, skipped_files=RecordedSkips())
            self.table = settings.tables[0]
            self.catalog.create_table(CHANGELOG, first_schema(), properties={"format-version": "2"})
            if self.judge.partitioned_by is not None:  # the column must exist when the mirror is created
                self.story += [self._tell(), self._merge()]
                self._tell_found()
            for _ in range(steps):
                self.step()
            self._end()
        return Outcome(self.judge.checked, self.story)

    def step(self) -> None:
        """Run one step."""
        doings: list[tuple[Callable[[], str | None], int]] = [
            (self._change, 24),
            (self._tell, 26),
            (self._merge, 24),
            (self._merge_and_die, 6),
            (self._merge_without_answer, 6),
            (self._replay, 5),
            (self._rebuild, 6),
            (self._verify, 4),
            (self._restart, 2),
        ]
        doing = self.dice.choices([one for one, _ in doings], [weight for _, weight in doings])[0]
        place = len(self.story)
        self.story.append(doing.__name__)
        self.story[place] = doing() or f"{doing.__name__}: nothing to do"
        self._tell_found()

    @property
    def changelog(self) -> Table:
        return MemoryCatalog.load_table(self.catalog, CHANGELOG)

    @property
    def mirror(self) -> Table | None:
        return self.catalog.load_table(MIRROR) if MIRROR in self.catalog.tables else None

    def _observe(self, before: TableMetadata, after: TableMetadata) -> None:
        if after.location.endswith("/world"):
            try:
                self.judge.look(before, after, self.catalog.shown, self._staged)
            except Exception as error:  # raised below: the commit would take it for a lost response
                self._found.append(error)

    def _tell_found(self) -> None:
        for error in self._found:
            raise error

    def _change(self) -> str | None:
        return change_columns(self.changelog, self.memory, self.dice)

    def _tell(self) -> str:
        return self.memory.tell(self.changelog, self.dice)

    def _merge(self) -> str:
        self.points.expect_nothing()
        return self._safely("merge", self._advance)

    def _merge_and_die(self) -> str:
        point = self.dice.choice((*NAMES, *COMPACTION_NAMES))
        self.points.expect(point, self.dice.choice([1, 1, 2]), self._die)
        return self._safely(f"merge to die at {point}", self._advance)

    def _merge_without_answer(self) -> str:
        self.points.expect_nothing()
        self.catalog.fault = self.dice.choice([one for one in Fault if one is not Fault.LATE])
        said = self._safely(f"merge whose commit is {self.catalog.fault}", self._advance)
        self.catalog.fault = None
        return said

    def _advance(self) -> str:
        for slices in range(self.dice.choice([1, 2, 50])):
            if not isinstance(self.pipeline.advance(self.table), Merged):
                return f"{slices} slices, up to date"
        return "slices"

    def _safely(self, what: str, do: Callable[[], str]) -> str:
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
        order = [one.snapshot_id for one in self.changelog.metadata.snapshots]
        if not order or self.mirror is None or self.mirror.current_snapshot() is None:
            return None
        self._asked += 1
        asked = Replay(f"range-{self._asked}", 0.0, from_snapshot=self.dice.choice(order))
        return self._safely("replay", lambda: self._replay_all(asked, 50))

    def _rebuild(self) -> str | None:
        if self.mirror is None or self.mirror.current_snapshot() is None:
            return None
        if self._full is None:
            self._asked += 1
            self._full, self._staged = Replay(f"full-{self._asked}", 0.0, full=True), []
        if self.dice.random() < 0.3:
            point = self.dice.choice((*NAMES, *OWN_NAMES))
            self.points.expect(point, self.dice.choice([1, 2]), self._die)
        full = self._full
        return self._safely("rebuild", lambda: self._replay_all(full, self.dice.choice([1, 2, 50])))

    def _replay_all(self, asked: Replay, steps: int) -> str:
        for number in range(steps):
            with suppress(Conflict):
                try:
                    step = replay_step(self.pipeline, self.table, asked)
                finally:
                    if asked.full:
                        self._staged.append(self.catalog.shown)
                asked = replace(asked, progress=step.progress)
                if asked.full:
                    self._full = None if step.done else asked
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
        self.story.append("the end")
        with suppress(CommitFailedException):
            self.catalog.land_late()
        self.points.expect_nothing()
        for _ in range(1000):
            if not isinstance(self.pipeline.advance(self.table), Merged):
                break
        self._tell_found()
        if self.judge.merged != len(self.memory.files):
            raise Divergence(f"{self.judge.merged} of {len(self.memory.files)} files are merged at the end")
        self._verify()
        self._tell_found()


@lru_cache(maxsize=64)
def _settings(options: str, tail: str) -> Settings:
    with tempfile.TemporaryDirectory(prefix="icemirror-sim-") as folder:
        return load_settings(write_config(Path(folder), options, tail), os.environ)


def run_seed(seed: int, bug: PlantedMistake | None = None) -> Outcome:
    """Run a seed and return its story; a violation carries it."""
    world = World(seed, bug)
    try:
        return world.run()
    except Exception as error:
        error.add_note("\n".join(world.story))
        raise
