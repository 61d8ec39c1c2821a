"""Worlds with requested replays and rebuilds, drawn from a separate random stream.

The rest of a seed's trace therefore changes only where a replay changes it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from icemirror.errors import CommitUnknown, Conflict, Corrupt, Invalid, Transient
from icemirror.protocol.replay import Replay, ReplayStep
from spark_job.iceberg.stage_file import read_stage_file
from spark_job.rebuild.replay import replay_step
from tests.sim.crash_points import REBUILD_POINTS
from tests.sim.engine.judge import FULL
from tests.sim.engine.memory_catalog import Fault
from tests.sim.engine.memory_io import Died
from tests.sim.engine.planted import PlantedDefect
from tests.sim.engine.process import MERGE_POINTS, restart
from tests.sim.engine.world import World

_MAX_STEPS = 200


class ReplayedWorld(World):
    """A world in which some steps are preceded by a replay or a rebuild, with or without faults."""

    def __init__(self, seed: int, defect: PlantedDefect | None = None) -> None:
        super().__init__(seed, defect)
        self.setting = self.judge.setting = self.setting.with_rebuilds()
        self.replay_dice = random.Random(seed ^ 0x5EED)
        self._requests = 0
        self._full: Replay | None = None

    def step(self) -> None:
        if self.mirror is not None and self.replay_dice.random() < 0.25:
            self._judge()
            action = self.replay_dice.choice([self._replay, self._rebuild, self._rebuild])
            index = len(self.trace)
            self.trace.append(action.__name__)
            self.trace[index] = f"{'  ' * self._depth}{action()}"
            self._judge()
        super().step()

    def _end(self) -> None:
        self.points.expect_nothing()
        if self._full is not None:
            self.trace.append(self._advance_replay("the rebuild ends", self._full, _MAX_STEPS))
        super()._end()

    def _replay(self) -> str:
        order = [snapshot.snapshot_id for snapshot in self.changelog.metadata.snapshots]
        if not order:
            return "nothing to replay"
        self._requests += 1
        first = self.replay_dice.randrange(len(order))
        last = self.replay_dice.choice([None, order[self.replay_dice.randrange(first, len(order))]])
        request = Replay(f"range-{self._requests}", 0.0, from_snapshot=order[first], to_snapshot=last)
        return self._disturb_replay(
            f"replay from {order[first]} to {last}", request, self.replay_dice.choice([1, 2, 50])
        )

    def _rebuild(self) -> str:
        if self._full is None:
            self._requests += 1
            self._full = Replay(f"{FULL}{self._requests}", 0.0, full=True)
        self._leaky |= self._depth > 0  # two workers at the same stage: the work of one is lost
        return self._disturb_replay(
            f"rebuild {self._full.id}", self._full, self.replay_dice.choice([1, 2, 50])
        )

    def _disturb_replay(self, what: str, request: Replay, steps: int) -> str:
        kinds = ["", "", "interlude"] if self.setting.calm else ["", "", "die", "fault", "interlude"]
        kind = self.replay_dice.choice(kinds)
        point, occurrence = (
            self.replay_dice.choice(self.replay_dice.choice([MERGE_POINTS, REBUILD_POINTS])),
            self.replay_dice.choice([1, 1, 2]),
        )
        acts: dict[str, Callable[[str], None]] = {"die": self._die, "interlude": self._interlude}
        if self._depth:  # the paused merge expects a point
            return self._advance_replay(what, request, steps)
        if kind in acts:
            self.points.expect(point, occurrence, acts[kind])
            return self._advance_replay(f"{what}, {kind} at {point} {occurrence}", request, steps)
        self.points.expect_nothing()
        if kind == "fault":
            self.catalog.fault = self.replay_dice.choice(list(Fault))
            what = f"{what}, a commit is {self.catalog.fault}"
        entry = self._advance_replay(what, request, steps)
        self.catalog.fault = None
        return entry

    def _advance_replay(self, what: str, request: Replay, steps: int) -> str:
        faulty = self.catalog.fault is not None
        self._forgetful = self._forgetful and self._depth > 0
        try:
            for _ in range(steps):
                step = replay_step(self.pipeline, self.pipeline.settings.tables[0], request)
                self._judge()
                self.points.passed = []
                request = self._record_progress(request, step)
                if step.done:
                    return f"{what}: done"
        except Died:
            self.io.dead = False
            self._leaky = True
            restart()
            return f"{what}: died at {self.points.passed[-1]}"
        except Invalid as error:
            # A stale changelog does not have the snapshots yet: the user has to request the replay again.
            if request.full or self.catalog.fault is not Fault.STALE or "has no snapshot" not in str(error):
                raise
            return f"{what}: {error}"
        except Corrupt as error:
            # A file of the stage was damaged: the mirror is unchanged, and the user requests it again.
            if "a file of the rebuild is missing" not in str(error) or not self.judge.damaged:
                raise
            self._full, self._leaky = None, True
            return f"{what}: {error}"
        except (CommitUnknown, Transient, Conflict) as error:
            outcome_unknown = isinstance(error, CommitUnknown) and self._forgetful and not self._depth
            if not faulty and not outcome_unknown:
                raise
            self._leaky = True
            return f"{what}: {error}"
        return f"{what}: not done yet"

    def _record_progress(self, request: Replay, step: ReplayStep) -> Replay:
        """Record the progress, like the row in the state store."""
        before, after = request.progress.mark if request.progress else None, step.progress.mark
        if request.full and before is not None and after is not None:
            # A stage that does not follow the last one was restarted, and left the old files behind.
            self._leaky |= (
                after not in self.io.files or read_stage_file(self.io, after)[0].previous_path != before
            )
        request = replace(request, progress=step.progress)
        if request.full and self._full is not None and request.id == self._full.id:
            self._full = None if step.done else request
        return request
