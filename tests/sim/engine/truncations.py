"""Worlds with truncations of the source, together with resyncs, or with replays and rebuilds.

Truncations are drawn from a separate random stream: late ones, ties, duplicates, and some without later events. Later
seeds also roll back unmerged commits of the changelog, among them truncations that a first merge or a rebuild follows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import SetSnapshotRefUpdate

from icemirror.errors import Invalid
from icemirror.protocol.replay import Replay
from icemirror.step_results import Rebuilt
from icemirror.tables.cursor import CursorSource
from spark_job.iceberg.ancestry import walk_ancestors
from spark_job.rebuild.swap_stage import StageDamaged
from tests.sim.engine import snapshots
from tests.sim.engine.journal import Event, Journal
from tests.sim.engine.judge import FULL
from tests.sim.engine.planted import PlantedDefect
from tests.sim.engine.reader import Divergence
from tests.sim.engine.replays import ReplayedWorld
from tests.sim.engine.resyncs import ResyncedWorld
from tests.sim.engine.setting import Setting
from tests.sim.engine.world import CHANGELOG, World

FIRST_WITH_ROLLED_BACK_COMMITS = 90_004


@dataclass
class TruncatingJournal(Journal):
    """A journal with truncations. `salt`: derived from the seed; a recreated journal continues from the clock."""

    salt: int = 0
    always_truncate: bool = False  # every next file has a truncation
    truncation_dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.truncation_dice = random.Random(1_000_003 * self.clock + self.revision ^ self.salt)

    def _events(self, setting: Setting, dice: random.Random) -> list[Event]:
        events = super()._events(setting, dice)
        if self.always_truncate or self.truncation_dice.random() < 0.12:
            events.insert(self.truncation_dice.randint(0, len(events)), self._truncation(events))
        return events

    def _truncation(self, events: list[Event]) -> Event:
        """Return a truncation near other events, late, or ahead of the next ones."""
        near = self.truncation_dice.choice(events)
        lsn = self.truncation_dice.choice([near.lsn, near.lsn, self.clock, self.clock + 1, near.lsn - 8])
        return Event(near.key, "T", lsn, self.truncation_dice.choice([0, 0, 1]), 0, None, None)


class _TruncatingWorld(World):
    """A world whose journal has truncations."""

    def __init__(self, seed: int, defect: PlantedDefect | None = None) -> None:
        super().__init__(seed, defect)
        self.setting = replace(self.setting, truncates=True, partial=False)
        self.trace[0] = repr(self.setting)
        self.journal = TruncatingJournal(salt=seed << 8)
        self.judge.setting, self.judge.journal = self.setting, self.journal
        self.rollback_dice = random.Random(seed ^ 0x0DD5)

    def step(self) -> None:
        if self.seed >= FIRST_WITH_ROLLED_BACK_COMMITS and self.rollback_dice.random() < 0.1:
            self._judge()
            if entry := self.rollback_dice.choice([self._roll_back_some, self._truncate_and_roll_back])():
                self.trace.append(f"{'  ' * self._depth}{entry}")
        super().step()

    def _roll_back_some(self) -> str | None:
        """Roll back some commits of the changelog."""
        metadata = self.changelog.metadata
        line = list(walk_ancestors(metadata.snapshots, metadata.current_snapshot_id))
        return self._roll_back_to(self.rollback_dice.choice(line[1:])) if line[1:] else None

    def _truncate_and_roll_back(self) -> str | None:
        """Append a truncation, let a merge follow it, then roll it back."""
        target = self.changelog.current_snapshot()
        if (
            target is None
            or self._depth
            or self.catalog.delayed
            or not isinstance(self.journal, TruncatingJournal)
        ):
            return None
        self.points.expect_nothing()
        self.journal.always_truncate = True
        entry = self.journal.append(self.changelog, self.setting, self.rollback_dice)
        self.journal.always_truncate = False
        return (
            f"by mistake {entry}, {self._follow_ahead()}, {self._roll_back_to(target) or 'which is too late'}"
        )

    def _follow_ahead(self) -> str:
        """Start a merge that follows the truncation ahead of its cursor."""
        return self._advance("merge")

    def _roll_back_to(self, target: Snapshot) -> str | None:
        """Roll the changelog back, not behind the cursor; a mirror that followed a removed truncation is refused."""
        table, mirror = self.changelog, self.mirror
        if self._depth or self.catalog.delayed:
            return None
        line = list(walk_ancestors(table.metadata.snapshots, table.metadata.current_snapshot_id))
        cursors = snapshots.cursors(mirror) if mirror else {}
        known = {
            snapshot_id: source
            for snapshot_id, source in cursors.items()
            if source.uuid == str(table.metadata.table_uuid)
        }
        least = max((source.sequence_number for source in known.values()), default=0)
        if (target.sequence_number or 0) < least:
            return None
        lacking = {
            snapshot_id for snapshot_id, source in known.items() if _follows_truncation_after(source, target)
        }
        last = snapshots.merge_snapshots(mirror.metadata)[:1] if mirror else []
        if not lacking:
            return self._roll_changelog_back(target)
        if lacking != {*last} or known[last[0]].snapshot_id not in {
            snapshot.snapshot_id for snapshot in line
        }:
            return None
        before, files = table.metadata, list(self.journal.files)
        entry = self._roll_changelog_back(target)
        try:
            self.pipeline.advance(self.pipeline.settings.tables[0])
        except Invalid as error:
            if "contained a truncation of the source" not in str(error):
                raise
            self.catalog.put(CHANGELOG, before)
            self.journal.files = files
            return f"{entry}: refused, and restored"
        raise Divergence("a merge follows a truncation that is no longer in the changelog")

    def _roll_changelog_back(self, target: Snapshot) -> str:
        """Remove all commits after the target; their numbers are not reused."""
        to_main = {"ref-name": "main", "snapshot-id": target.snapshot_id, "type": "branch"}
        self.catalog.commit_table(self.changelog, (), (SetSnapshotRefUpdate.model_validate(to_main),))
        number = target.sequence_number or 0
        rolled = self.changelog.metadata
        removed = [
            snapshot.snapshot_id for snapshot in rolled.snapshots if (snapshot.sequence_number or 0) > number
        ]
        self.catalog.put(CHANGELOG, snapshots.without(rolled, removed))
        self.catalog.earlier[CHANGELOG].clear()  # no stale reads of removed commits
        self.catalog.earlier[CHANGELOG].append(self.changelog.metadata)
        self.journal.files = [file for file in self.journal.files if file.commit <= number]
        self.points.expect_nothing()
        self._leaky = True  # stages restart
        return f"roll the changelog back to {target.snapshot_id}, without {len(removed)} commits"

    def _is_up_to_date(self) -> bool:
        try:
            done = super()._is_up_to_date()
        except StageDamaged:
            if not self.judge.damaged:
                raise
            return False
        if isinstance(self.last, Rebuilt):
            self._staged = self._stuck = 0  # the next rebuild starts from scratch
        return done


def _follows_truncation_after(source: CursorSource, target: Snapshot) -> bool:
    return source.truncated is not None and source.truncated.commit > (target.sequence_number or 0)


class TruncatedWorld(_TruncatingWorld, ResyncedWorld):
    """Truncations with recreated changelogs and expired history."""


class TruncatedReplayedWorld(_TruncatingWorld, ReplayedWorld):
    """Truncations with requested replays and rebuilds."""

    def _follow_ahead(self) -> str:
        if self.mirror is None:
            return super()._follow_ahead()
        self._requests += 1
        self._full = self._full or Replay(f"{FULL}{self._requests}", 0.0, full=True)
        return self._advance_replay(f"rebuild {self._full.id}", self._full, 1)

    def _check_no_files_left(self) -> None:
        """Check nothing: two kinds of rebuilds at once leave files of their stages as orphans."""
