"""Worlds in which people also ask for replays and rebuilds, told by a random stream of their own.

What happens besides is what happens without them, so a seed's story changes only where the replays change it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from icemirror.errors import CommitUnknown, Conflict, Corrupt, Invalid, Transient
from icemirror.state.replay import Replay, ReplayStep
from spark_job.replays.replay import replay_step
from spark_job.staging.stage import read_stage
from tests.sim.engine.bugs import Bug
from tests.sim.engine.judge import FULL
from tests.sim.engine.memory_catalog import Fault
from tests.sim.engine.memory_io import Died
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
_MOST_STEPS = 200


class ReplayedWorld(World):
    """Before each step, now and then: a replay of some range, or a rebuild, in trouble or not."""

    def __init__(self, seed: int, bug: Bug | None = None) -> None:
        super().__init__(seed, bug)
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
            self.story.append(self._advance_replay("the rebuild ends", self._full, _MOST_STEPS))
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
        self._leaky |= self._depth > 0  # two at the same stage: one of them works in vain
        return self._in_trouble(f"rebuild {self._full.id}", self._full, self.luck.choice([1, 2, 50]))

    def _in_trouble(self, what: str, asked: Replay, steps: int) -> str:
        kinds = ["", "", "interlude"] if self.setting.calm else ["", "", "die", "fault", "interlude"]
        kind = self.luck.choice(kinds)
        point, time = self.luck.choice(self.luck.choice([NAMES, OWN_NAMES])), self.luck.choice([1, 1, 2])
        acts: dict[str, Callable[[str], None]] = {"die": self._die, "interlude": self._interlude}
        if self._depth:  # whatever the one that stands still expects
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
            # A changelog that is shown as it was does not have the snapshots yet: somebody has to ask once more.
            if asked.full or self.catalog.fault is not Fault.STALE or "has no snapshot" not in str(error):
                raise
            return f"{what}: {error}"
        except Corrupt as error:
            # A file of the stage was damaged: the mirror stays as it is, and somebody asks once more.
            if "written for the rebuild, is gone" not in str(error) or not self.judge.damaged:
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
        """As the table's row does."""
        before, after = asked.progress.mark if asked.progress else None, step.progress.mark
        if asked.full and before is not None and after is not None:
            # Where it does not follow on the last one it was begun anew, and what was staged is left.
            self._leaky |= after not in self.io.files or read_stage(self.io, after)[0].before != before
        asked = replace(asked, progress=step.progress)
        if asked.full and self._full is not None and asked.id == self._full.id:
            self._full = None if step.done else asked
        return asked
