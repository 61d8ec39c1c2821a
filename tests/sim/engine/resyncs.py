"""Worlds in which the changelog is dropped and made anew, and expires beyond what was merged of it.

Both are told by a random stream of their own, as replays are. The mirror is rebuilt by policy, and nobody asks.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from icemirror.errors import Transient
from icemirror.result import Rebuilt, Staged
from spark_job.lost_track import NoChangelog
from spark_job.replays.rebuild import StageDamaged
from spark_job.replays.resync import advance
from spark_job.staging.stage import SUFFIX
from tests.sim.engine import snapshots
from tests.sim.engine.bugs import Bug
from tests.sim.engine.process import NAMES
from tests.sim.engine.reader import Divergence
from tests.sim.engine.replays import OWN_NAMES
from tests.sim.engine.world import CHANGELOG, World

_MOST_STUCK = 3  # commits without events, a stage whose root was damaged


class ResyncedWorld(World):
    """Before each step, now and then: another changelog of the same name, or one whose history is gone."""

    def __init__(self, seed: int, bug: Bug | None = None) -> None:
        super().__init__(seed, bug)
        self.setting = replace(self.setting.with_rebuilds(), resync=True, partial=False)
        self.judge.setting = self.setting
        self.story = [repr(self.setting)]
        self.luck = random.Random(seed ^ 0xC0FFEE)
        self._compacted = (
            False  # events of several commits are in one file, and nobody tells them apart any more
        )

    def step(self) -> None:
        self._staged = self._stuck = 0
        if self.mirror is not None and self.luck.random() < 0.2:
            self._judge()
            doings = [self._make_anew, self._make_anew, self._lose_track, self._rebuild_with_trouble]
            doing = self.luck.choice(doings)
            place = len(self.story)
            self.story.append(doing.__name__)
            self.story[place] = f"{'  ' * self._depth}{doing() or doing.__name__ + ': nothing to do'}"
            self._judge()
        super().step()

    def _make_anew(self) -> str:
        """TRUNCATE, or a re-sync: another table of the same name, to which something is written at once, or later."""
        self._abandon_stages()
        self.catalog.drop_table(CHANGELOG)
        said = "the changelog is dropped"
        if self.luck.random() < 0.3 and not self._depth and not self.catalog.fault:
            said = f"{said}{self._look_in_vain()}"
        self.journal = type(self.journal)(clock=self.journal.clock, revision=self.journal.revision)
        self._compacted = False
        self._create_changelog()
        for _ in range(self.luck.choice([0, 0, 1, 4])):
            self.journal.tell(self.changelog, self.setting, self.luck)
        return f"{said}, and made anew with {len(self.journal.files)} files"

    def _look_in_vain(self) -> str:
        self.points.expect_nothing()
        mirror = self.mirror
        before = mirror.metadata if mirror else None
        try:
            advance(self.pipeline, self.pipeline.settings.tables[0])
        except (Transient, NoChangelog) as error:
            mirror = self.mirror
            if (mirror.metadata if mirror else None) != before:
                raise Divergence("without a changelog the mirror changed") from error
            return f", looked for in vain ({type(error).__name__})"
        raise Divergence("a merge without a changelog said nothing")

    def _lose_track(self) -> str | None:
        """All of the changelog's history expires; its events stay."""
        table = self.changelog
        head = table.current_snapshot()
        every = [one.snapshot_id for one in table.metadata.snapshots]
        gone = [one for one in every if head is not None and one != head.snapshot_id]
        if not gone or self._depth or self.catalog.late or self._compacted:
            return None
        self._abandon_stages()
        self.journal.rewritten = True
        if self.luck.random() < 0.5:
            self._remove(table, gone)
        else:
            self.catalog.put(table.name(), snapshots.without(table.metadata, gone))
        return f"expire {len(gone)} snapshots of the changelog, merged or not"

    def _rebuild_with_trouble(self) -> str | None:
        """A merge, which may have to rebuild, that dies at a point of a rebuild, or stands still there."""
        if self._depth:
            return None
        kinds = ["interlude"] if self.setting.calm else ["die", "die", "interlude"]
        acts: dict[str, Callable[[str], None]] = {"die": self._die, "interlude": self._interlude}
        kind = self.luck.choice(kinds)
        point = self.luck.choice((*OWN_NAMES, *OWN_NAMES, *NAMES))
        self.points.expect(point, self.luck.choice([1, 1, 2]), acts[kind])
        return self._advance(f"merge, {kind} at {point}")

    def _is_up_to_date(self) -> bool:
        """After one step. Where somebody damaged what was staged, it is built again; else a rebuild gets on."""
        told = len(self.story)
        try:
            done = super()._is_up_to_date()
        except StageDamaged:
            if not self.judge.damaged:
                raise
            return False
        # Two at the same stage: one of them works in vain.
        self._leaky |= self._depth > 0 and isinstance(self.last, Staged | Rebuilt)
        if isinstance(self.last, Staged) and len(self.story) == told:
            gets_on = self.last.events > self._staged
            self._staged, self._stuck = self.last.events, 0 if gets_on else self._stuck + 1
            if self._stuck > _MOST_STUCK:
                raise Divergence(f"a rebuild does not get beyond {self._staged} events")
        return done

    def _abandon_stages(self) -> None:
        """Nobody goes on with what was staged for another changelog, or another cursor: that is left to cleaners."""
        self._leaky |= self._depth > 0 or any(path.endswith(SUFFIX) for path in self.io.files)

    def _compact_changelog(self) -> str | None:
        said = super()._compact_changelog()
        self._compacted |= said is not None
        return said

    def _roll_back(self) -> str | None:
        self._abandon_stages()
        return super()._roll_back()

    def _can_be_rolled_back_to(self) -> set[int] | None:
        """Also where the changelog does not lead on from, so that all is built anew."""
        return super()._can_be_rolled_back_to() if self._compacted or self.luck.random() < 0.5 else None

    def _upgrade(self) -> str | None:
        self._abandon_stages()
        return super()._upgrade()
