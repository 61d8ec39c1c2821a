"""Worlds in which the source is truncated now and then, beside re-syncs, or beside replays and rebuilds.

Truncations are told by a random stream of their own: late ones, ties, repetitions, and some that nothing comes after.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from icemirror.result import Rebuilt
from spark_job.replays.rebuild import StageDamaged
from tests.sim.engine.bugs import Bug
from tests.sim.engine.journal import Event, Journal
from tests.sim.engine.replays import ReplayedWorld
from tests.sim.engine.resyncs import ResyncedWorld
from tests.sim.engine.setting import Setting
from tests.sim.engine.world import World


@dataclass
class TruncatingJournal(Journal):
    """Some rows say that the source was truncated. `salt`: of the seed; one that is made anew has the story's."""

    salt: int = 0
    fortune: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.fortune = random.Random(1_000_003 * self.clock + self.revision ^ self.salt)

    def _events(self, setting: Setting, dice: random.Random) -> list[Event]:
        events = super()._events(setting, dice)
        if self.fortune.random() < 0.12:
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


class TruncatedWorld(_Truncating, ResyncedWorld):
    """With changelogs that are dropped and made anew, or lose their history."""


class TruncatedReplayedWorld(_Truncating, ReplayedWorld):
    """With replays and rebuilds that people ask for."""

    def _nothing_left_behind(self) -> None:
        """Two kinds of rebuilds at once leave some of what they staged: cleaners take it."""
