"""Worlds with requested replays and rebuilds, drawn from a separate random stream.

So the rest of a seed's story changes only where a replay changes it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from icemirror.errors import CommitUnknown, Conflict, Corrupt, Invalid, Transient
from icemirror.protocol.replay import Replay, ReplayStep
from spark_job.iceberg.stage import read_stage
from spark_job.rebuild.replay import replay_step
from tests.sim.engine.judge import FULL
from tests.sim.engine.memory_catalog import Fault
from tests.sim.engine.memory_io import Died
from tests.sim.engine.planted import PlantedMistake
from tests.sim.engine.process import NAMES, restart
from tests.sim.engine.world import World

OWN_NAMES = (
    "stage-begun",
    "stage-merged",
    "stage-kept",
    "swap-root-written",
    "swap",
    "swapped",
    "stage-removed",
)
_MAX_STEPS = 200


class ReplayedWorld(World):
    """A world in which some steps are preceded by a replay or a rebuild, with or without faults."""

    def __init__(self, seed: int, mistake: PlantedMistake | None = None) -> None:
        super().__init__(seed, mistake)
        self.setting = self.judge.setting = self.setting.with_rebuilds()
        self.luck = random.Random(seed ^ 0x5EED)
        self._asked = 0
        self._full: Replay | None = None

    def step(self) -> None:
        if self.mirror is not None and self.luck.random() < 0.25:
            self._judge()
            doing = self.luck.choice([self._replay, self._rebuild, self._rebuild])
            place = len(self.story)
            self.story.append(doing.__name__)
            self.story[place] = f"{'  ' * self._depth}{doing()}"
            self._judge()
        super().step()

    def _end(self) -> None:
        self.points.expect_nothing()
        if self._full is not None:
            self.story.append(self._advance_replay("the rebuild ends", self._full, _MAX_STEPS))
        super()._end()

    def _replay(self) -> str:
        order = [one.snapshot_id for one in self.changelog.metadata.snapshots]
        if not order:
            return "nothing to replay"
        self._asked += 1
        first = self.luck.randrange(len(order))
        last = self.luck.choice([None, order[self.luck.randrange(first, len(order))]])
        asked = Replay(f"range-{self._asked}", 0.0, from_snapshot=order[first], to_snapshot=last)
        return self._in_trouble(f"replay from {order[first]} to {last}", asked, self.luck.choice([1, 2, 50]))

    def _rebuild(self) -> str:
        if self._full is None:
            self._asked += 1
            self._full = Replay(f"{FULL}{self._asked}", 0.0, full=True)
        self._leaky |= self._depth > 0  # two at the same stage: the work of one is lost
        return self._in_trouble(f"rebuild {self._full.id}", self._full, self.luck.choice([1, 2, 50]))

    def _in_trouble(self, what: str, asked: Replay, steps: int) -> str:
        kinds = ["", "", "interlude"] if self.setting.calm else ["", "", "die", "fault", "interlude"]
        kind = self.luck.choice(kinds)
        point, time = self.luck.choice(self.luck.choice([NAMES, OWN_NAMES])), self.luck.choice([1, 1, 2])
        acts: dict[str, Callable[[str], None]] = {"die": self._die, "interlude": self._interlude}
        if self._depth:  # the paused merge expects a point
            return self._advance_replay(what, asked, steps)
        if kind in acts:
            self.points.expect(point, time, acts[kind])
            return self._advance_replay(f"{what}, {kind} at {point} {time}", asked, steps)
        self.points.expect_nothing()
        if kind == "fault":
            self.catalog.fault = self.luck.choice(list(Fault))
            what = f"{what}, a commit is {self.catalog.fault}"
        said = self._advance_replay(what, asked, steps)
        self.catalog.fault = None
        return said

    def _advance_replay(self, what: str, asked: Replay, steps: int) -> str:
        faulty = self.catalog.fault is not None
        self._forgetful = self._forgetful and self._depth > 0
        try:
            for _ in range(steps):
                step = replay_step(self.pipeline, self.pipeline.settings.tables[0], asked)
                self._judge()
                self.points.passed = []
                asked = self._note(asked, step)
                if step.done:
                    return f"{what}: done"
        except Died:
            self.io.dead = False
            self._leaky = True
            restart()
            return f"{what}: died at {self.points.passed[-1]}"
        except Invalid as error:
            # A stale changelog does not have the snapshots yet: the user has to request the replay again.
            if asked.full or self.catalog.fault is not Fault.STALE or "has no snapshot" not in str(error):
                raise
            return f"{what}: {error}"
        except Corrupt as error:
            # A file of the stage was damaged: the mirror is unchanged, and the user requests it again.
            if "a file of the rebuild is missing" not in str(error) or not self.judge.damaged:
                raise
            self._full, self._leaky = None, True
            return f"{what}: {error}"
        except (CommitUnknown, Transient, Conflict) as error:
            unlearned = isinstance(error, CommitUnknown) and self._forgetful and not self._depth
            if not faulty and not unlearned:
                raise
            self._leaky = True
            return f"{what}: {error}"
        return f"{what}: not done yet"

    def _note(self, asked: Replay, step: ReplayStep) -> Replay:
        """Record the progress, like the row in the state store."""
        before, after = asked.progress.mark if asked.progress else None, step.progress.mark
        if asked.full and before is not None and after is not None:
            # A stage that does not follow the last one was restarted, and left the old files behind.
            self._leaky |= after not in self.io.files or read_stage(self.io, after)[0].before != before
        asked = replace(asked, progress=step.progress)
        if asked.full and self._full is not None and asked.id == self._full.id:
            self._full = None if step.done else asked
        return asked
