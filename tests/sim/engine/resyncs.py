"""Worlds in which the changelog is recreated, or its history expires beyond the cursor.

Both are drawn from a separate random stream. The mirror is rebuilt by policy, without a request.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from icemirror.errors import Transient
from icemirror.result import Rebuilt, Staged
from spark_job.iceberg.missing_changelog import ChangelogNotFound
from spark_job.iceberg.stage import SUFFIX
from spark_job.rebuild.swap_stage import StageDamaged
from tests.sim.engine import snapshots
from tests.sim.engine.planted import PlantedMistake
from tests.sim.engine.process import NAMES
from tests.sim.engine.reader import Divergence
from tests.sim.engine.replays import OWN_NAMES
from tests.sim.engine.world import CHANGELOG, World

_MAX_STUCK = 3  # commits without events, a stage with a damaged root


class ResyncedWorld(World):
    """A world in which some steps are preceded by a new changelog, or by the expiry of its history."""

    def __init__(self, seed: int, mistake: PlantedMistake | None = None) -> None:
        super().__init__(seed, mistake)
        self.setting = replace(self.setting.with_rebuilds(), resync=True, partial=False)
        self.judge.setting = self.setting
        self.story = [repr(self.setting)]
        self.luck = random.Random(seed ^ 0xC0FFEE)
        self._compacted = False  # events of several commits are in one file

    def step(self) -> None:
        self._staged = self._stuck = 0
        if self.mirror is not None and self.luck.random() < 0.2:
            self._judge()
            doings = [
                self._recreate_changelog,
                self._recreate_changelog,
                self._expire_all,
                self._rebuild_with_trouble,
            ]
            doing = self.luck.choice(doings)
            place = len(self.story)
            self.story.append(doing.__name__)
            self.story[place] = f"{'  ' * self._depth}{doing() or doing.__name__ + ': nothing to do'}"
            self._judge()
        super().step()

    def _recreate_changelog(self) -> str:
        """Recreate the changelog, as a TRUNCATE or a copy does, with or without events."""
        self._abandon_stages()
        self.catalog.drop_table(CHANGELOG)
        said = "the changelog is dropped"
        if self.luck.random() < 0.3 and not self._depth and not self.catalog.fault:
            said = f"{said}{self._merge_without_changelog()}"
        self.journal = type(self.journal)(clock=self.journal.clock, revision=self.journal.revision)
        self._compacted = False
        self._create_changelog()
        for _ in range(self.luck.choice([0, 0, 1, 4])):
            self.journal.append(self.changelog, self.setting, self.luck)
        return f"{said}, and recreated with {len(self.journal.files)} files"

    def _merge_without_changelog(self) -> str:
        self.points.expect_nothing()
        mirror = self.mirror
        before = mirror.metadata if mirror else None
        try:
            self.pipeline.advance(self.pipeline.settings.tables[0])
        except (Transient, ChangelogNotFound) as error:
            mirror = self.mirror
            if (mirror.metadata if mirror else None) != before:
                raise Divergence("without a changelog the mirror changed") from error
            return f", merge without it: {type(error).__name__}"
        raise Divergence("a merge without a changelog said nothing")

    def _expire_all(self) -> str | None:
        """Expire all of the changelog's history; its events stay."""
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
        """Merge or rebuild, and die or pause at a point of a rebuild."""
        if self._depth:
            return None
        kinds = ["interlude"] if self.setting.calm else ["die", "die", "interlude"]
        acts: dict[str, Callable[[str], None]] = {"die": self._die, "interlude": self._interlude}
        kind = self.luck.choice(kinds)
        point = self.luck.choice((*OWN_NAMES, *OWN_NAMES, *NAMES))
        self.points.expect(point, self.luck.choice([1, 1, 2]), acts[kind])
        return self._advance(f"merge, {kind} at {point}")

    def _is_up_to_date(self) -> bool:
        """Do one step. A damaged stage is built again; else a rebuild must make progress."""
        before = len(self.story)
        try:
            done = super()._is_up_to_date()
        except StageDamaged:
            if not self.judge.damaged:
                raise
            return False
        # Two at the same stage: the work of one is lost.
        self._leaky |= self._depth > 0 and isinstance(self.last, Staged | Rebuilt)
        if isinstance(self.last, Staged) and len(self.story) == before:
            progressed = self.last.events > self._staged
            self._staged, self._stuck = self.last.events, 0 if progressed else self._stuck + 1
            if self._stuck > _MAX_STUCK:
                raise Divergence(f"a rebuild does not get beyond {self._staged} events")
        return done

    def _abandon_stages(self) -> None:
        """Abandon stages of another changelog or cursor; their files are left to orphan removal."""
        self._leaky |= self._depth > 0 or any(path.endswith(SUFFIX) for path in self.io.files)

    def _compact_changelog(self) -> str | None:
        said = super()._compact_changelog()
        self._compacted |= said is not None
        return said

    def _roll_back(self) -> str | None:
        self._abandon_stages()
        return super()._roll_back()

    def _can_be_rolled_back_to(self) -> set[int] | None:
        """Also allow snapshots that the changelog cannot continue from, so that the mirror is rebuilt."""
        return super()._can_be_rolled_back_to() if self._compacted or self.luck.random() < 0.5 else None

    def _upgrade(self) -> str | None:
        self._abandon_stages()
        return super()._upgrade()
