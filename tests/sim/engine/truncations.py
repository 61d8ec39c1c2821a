"""Worlds in which the source is truncated now and then, beside re-syncs, or beside replays and rebuilds.

Truncations are told by a random stream of their own: late ones, ties, repetitions, and some that nothing comes after.
In later seeds commits of the changelog that the mirror has not merged are rolled back now and then, truncations that a
first merge or a rebuild goes by among them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import SetSnapshotRefUpdate

from icemirror.cursor import Source
from icemirror.errors import Invalid
from icemirror.result import Rebuilt
from icemirror.state.replay import Replay
from spark_job.iceberg.ancestors import walk_ancestors
from spark_job.replays.rebuild import StageDamaged
from spark_job.replays.resync import advance
from tests.sim.engine import snapshots
from tests.sim.engine.bugs import Bug
from tests.sim.engine.journal import Event, Journal
from tests.sim.engine.judge import FULL
from tests.sim.engine.reader import Divergence
from tests.sim.engine.replays import ReplayedWorld
from tests.sim.engine.resyncs import ResyncedWorld
from tests.sim.engine.setting import Setting
from tests.sim.engine.world import CHANGELOG, World

FIRST_WITH_COMMITS_TAKEN_BACK = 90_004


@dataclass
class TruncatingJournal(Journal):
    """Some rows say that the source was truncated. `salt`: of the seed; one that is made anew has the story's."""

    salt: int = 0
    sure: bool = False  # the next files all have one
    fortune: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.fortune = random.Random(1_000_003 * self.clock + self.revision ^ self.salt)

    def _events(self, setting: Setting, dice: random.Random) -> list[Event]:
        events = super()._events(setting, dice)
        if self.sure or self.fortune.random() < 0.12:
            events.insert(self.fortune.randint(0, len(events)), self._truncation(events))
        return events

    def _truncation(self, events: list[Event]) -> Event:
        """Where its neighbours are, or late, or ahead of what comes next."""
        near = self.fortune.choice(events)
        lsn = self.fortune.choice([near.lsn, near.lsn, self.clock, self.clock + 1, near.lsn - 8])
        return Event(near.key, "T", lsn, self.fortune.choice([0, 0, 1]), 0, None, None)


class _Truncating(World):
    """The journal tells of truncations."""

    def __init__(self, seed: int, bug: Bug | None = None) -> None:
        super().__init__(seed, bug)
        self.setting = replace(self.setting, truncates=True, partial=False)
        self.story[0] = repr(self.setting)
        self.journal = TruncatingJournal(salt=seed << 8)
        self.judge.setting, self.judge.journal = self.setting, self.journal
        self.mishaps = random.Random(seed ^ 0x0DD5)

    def step(self) -> None:
        if self.seed >= FIRST_WITH_COMMITS_TAKEN_BACK and self.mishaps.random() < 0.1:
            self._judge()
            if said := self.mishaps.choice([self._roll_back_some, self._tell_by_mistake])():
                self.story.append(f"{'  ' * self._depth}{said}")
        super().step()

    def _roll_back_some(self) -> str | None:
        """Some commits of the changelog."""
        metadata = self.changelog.metadata
        line = list(walk_ancestors(metadata.snapshots, metadata.current_snapshot_id))
        return self._take_back(self.mishaps.choice(line[1:])) if line[1:] else None

    def _tell_by_mistake(self) -> str | None:
        """A truncation, which is rolled back once somebody goes by it."""
        target = self.changelog.current_snapshot()
        if (
            target is None
            or self._depth
            or self.catalog.late
            or not isinstance(self.journal, TruncatingJournal)
        ):
            return None
        self.points.expect_nothing()
        self.journal.sure = True
        said = self.journal.tell(self.changelog, self.setting, self.mishaps)
        self.journal.sure = False
        return f"by mistake {said}, {self._go_by_it()}, {self._take_back(target) or 'which is too late'}"

    def _go_by_it(self) -> str:
        """Begins what looks ahead."""
        return self._advance("merge")

    def _take_back(self, target: Snapshot) -> str | None:
        """Rolls the changelog back, but not behind what is merged; a mirror that goes by what is gone is refused."""
        table, mirror = self.changelog, self.mirror
        if self._depth or self.catalog.late:
            return None
        line = list(walk_ancestors(table.metadata.snapshots, table.metadata.current_snapshot_id))
        told = snapshots.cursors(mirror) if mirror else {}
        known = {one: source for one, source in told.items() if source.uuid == str(table.metadata.table_uuid)}
        least = max((source.sequence_number for source in known.values()), default=0)
        if (target.sequence_number or 0) < least:
            return None
        lacking = {one for one, source in known.items() if _goes_by_what_is_after(source, target)}
        standing = snapshots.standing(mirror.metadata)[:1] if mirror else []
        if not lacking:
            return self._roll_changelog_back(target)
        if lacking != {*standing} or known[standing[0]].snapshot_id not in {one.snapshot_id for one in line}:
            return None
        before, files = table.metadata, list(self.journal.files)
        said = self._roll_changelog_back(target)
        try:
            advance(self.pipeline, self.pipeline.settings.tables[0])
        except Invalid as error:
            if "told of a truncation" not in str(error):
                raise
            self.catalog.put(CHANGELOG, before)
            self.journal.files = files
            return f"{said}: refused, and put back"
        raise Divergence("a merge goes by a truncation that is in the changelog no more")

    def _roll_changelog_back(self, target: Snapshot) -> str:
        """As if what came after that had never been, except that its numbers are not given again."""
        to_main = {"ref-name": "main", "snapshot-id": target.snapshot_id, "type": "branch"}
        self.catalog.commit_table(self.changelog, (), (SetSnapshotRefUpdate.model_validate(to_main),))
        number = target.sequence_number or 0
        rolled = self.changelog.metadata
        gone = [one.snapshot_id for one in rolled.snapshots if (one.sequence_number or 0) > number]
        self.catalog.put(CHANGELOG, snapshots.without(rolled, gone))
        self.catalog.earlier[CHANGELOG].clear()  # a replica that shows what is gone would be another story
        self.catalog.earlier[CHANGELOG].append(self.changelog.metadata)
        self.journal.files = [file for file in self.journal.files if file.commit <= number]
        self.points.expect_nothing()
        self._leaky = True  # what was staged is begun anew
        return f"roll the changelog back to {target.snapshot_id}, without {len(gone)} commits"

    def _is_up_to_date(self) -> bool:
        try:
            done = super()._is_up_to_date()
        except StageDamaged:
            if not self.judge.damaged:
                raise
            return False
        if isinstance(self.last, Rebuilt):
            self._staged = self._stuck = 0  # the next one begins anew
        return done


def _goes_by_what_is_after(source: Source, target: Snapshot) -> bool:
    return source.truncated is not None and source.truncated.commit > (target.sequence_number or 0)


class TruncatedWorld(_Truncating, ResyncedWorld):
    """With changelogs that are dropped and made anew, or lose their history."""


class TruncatedReplayedWorld(_Truncating, ReplayedWorld):
    """With replays and rebuilds that people ask for."""

    def _go_by_it(self) -> str:
        if self.mirror is None:
            return super()._go_by_it()
        self._asked += 1
        self._full = self._full or Replay(f"{FULL}{self._asked}", 0.0, full=True)
        return self._advance_replay(f"rebuild {self._full.id}", self._full, 1)

    def _nothing_left_behind(self) -> None:
        """Two kinds of rebuilds at once leave some of what they staged: cleaners take it."""
