"""Worlds in which the changelog is recreated, or its history expires beyond the cursor.

Both are drawn from a separate random stream. The mirror is rebuilt by policy, without a request.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from icemirror.errors import Transient
from icemirror.step_results import Rebuilt, Staged
from spark_job.iceberg.catalogs import ChangelogNotFound
from spark_job.iceberg.stage_file import STAGE_FILE_SUFFIX
from spark_job.rebuild.swap_stage import StageDamaged
from tests.sim.crash_points import REBUILD_POINTS
from tests.sim.engine import snapshots
from tests.sim.engine.planted import PlantedDefect
from tests.sim.engine.process import MERGE_POINTS
from tests.sim.engine.reader import Divergence
from tests.sim.engine.world import CHANGELOG, World

_MAX_STUCK = 3  # commits without events, a stage with a damaged root


class ResyncedWorld(World):
    """A world in which some steps are preceded by a new changelog, or by the expiry of its history."""

    def __init__(self, seed: int, defect: PlantedDefect | None = None) -> None:
        super().__init__(seed, defect)
        self.setting = replace(self.setting.with_rebuilds(), resync=True, partial=False)
        self.judge.setting = self.setting
        self.trace = [repr(self.setting)]
        self.resync_dice = random.Random(seed ^ 0xC0FFEE)
        self._compacted = False  # events of several commits are in one file

    def step(self) -> None:
        self._staged = self._stuck = 0
        if self.mirror is not None and self.resync_dice.random() < 0.2:
            self._judge()
            actions = [
                self._recreate_changelog,
                self._recreate_changelog,
                self._expire_all,
                self._disturbed_rebuild,
            ]
            action = self.resync_dice.choice(actions)
            index = len(self.trace)
            self.trace.append(action.__name__)
            self.trace[index] = f"{'  ' * self._depth}{action() or action.__name__ + ': nothing to do'}"
            self._judge()
        super().step()

    def _recreate_changelog(self) -> str:
        """Recreate the changelog, as a TRUNCATE or a copy does, with or without events."""
        self._abandon_stages()
        self.catalog.drop_table(CHANGELOG)
        entry = "the changelog is dropped"
        if self.resync_dice.random() < 0.3 and not self._depth and not self.catalog.fault:
            entry = f"{entry}{self._merge_without_changelog()}"
        self.journal = type(self.journal)(clock=self.journal.clock, revision=self.journal.revision)
        self._compacted = False
        self._create_changelog()
        for _ in range(self.resync_dice.choice([0, 0, 1, 4])):
            self.journal.append(self.changelog, self.setting, self.resync_dice)
        return f"{entry}, and recreated with {len(self.journal.files)} files"

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
        raise Divergence("a merge without a changelog raised no error")

    def _expire_all(self) -> str | None:
        """Expire all of the changelog's history; its events stay."""
        table = self.changelog
        head = table.current_snapshot()
        every = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
        expired = [
            snapshot_id for snapshot_id in every if head is not None and snapshot_id != head.snapshot_id
        ]
        if not expired or self._depth or self.catalog.delayed or self._compacted:
            return None
        self._abandon_stages()
        self.journal.rewritten = True
        if self.resync_dice.random() < 0.5:
            self._remove(table, expired)
        else:
            self.catalog.put(table.name(), snapshots.without(table.metadata, expired))
        return f"expire {len(expired)} snapshots of the changelog, merged or not"

    def _disturbed_rebuild(self) -> str | None:
        """Merge or rebuild, and die or pause at a point of a rebuild."""
        if self._depth:
            return None
        kinds = ["interlude"] if self.setting.calm else ["die", "die", "interlude"]
        acts: dict[str, Callable[[str], None]] = {"die": self._die, "interlude": self._interlude}
        kind = self.resync_dice.choice(kinds)
        point = self.resync_dice.choice((*REBUILD_POINTS, *REBUILD_POINTS, *MERGE_POINTS))
        self.points.expect(point, self.resync_dice.choice([1, 1, 2]), acts[kind])
        return self._advance(f"merge, {kind} at {point}")

    def _is_up_to_date(self) -> bool:
        """Do one step. A damaged stage is built again; else a rebuild must make progress."""
        before = len(self.trace)
        try:
            done = super()._is_up_to_date()
        except StageDamaged:
            if not self.judge.damaged:
                raise
            return False
        # Two workers at the same stage: the work of one is lost.
        self._leaky |= self._depth > 0 and isinstance(self.last, Staged | Rebuilt)
        if isinstance(self.last, Staged) and len(self.trace) == before:
            progressed = self.last.events > self._staged
            self._staged, self._stuck = self.last.events, 0 if progressed else self._stuck + 1
            if self._stuck > _MAX_STUCK:
                raise Divergence(f"a rebuild does not get beyond {self._staged} events")
        return done

    def _abandon_stages(self) -> None:
        """Abandon stages of another changelog or cursor; their files are orphans."""
        self._leaky |= self._depth > 0 or any(path.endswith(STAGE_FILE_SUFFIX) for path in self.io.files)

    def _compact_changelog(self) -> str | None:
        entry = super()._compact_changelog()
        self._compacted |= entry is not None
        return entry

    def _roll_back(self) -> str | None:
        self._abandon_stages()
        return super()._roll_back()

    def _can_be_rolled_back_to(self) -> set[int] | None:
        """Also allow snapshots that the changelog cannot continue from, so that the mirror is rebuilt."""
        return (
            super()._can_be_rolled_back_to() if self._compacted or self.resync_dice.random() < 0.5 else None
        )

    def _upgrade(self) -> str | None:
        self._abandon_stages()
        return super()._upgrade()
