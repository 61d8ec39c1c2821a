"""The story of a seed, by its number alone."""

from __future__ import annotations

from tests.sim.engine.bugs import Bug
from tests.sim.engine.keyless import KeylessWorld
from tests.sim.engine.outcome import Outcome
from tests.sim.engine.rejects import SpoiltReplayedWorld, SpoiltWorld
from tests.sim.engine.replays import ReplayedWorld
from tests.sim.engine.resyncs import ResyncedWorld
from tests.sim.engine.setting import FIRST_WITH_PARTIAL_EVENTS
from tests.sim.engine.truncations import TruncatedReplayedWorld, TruncatedWorld
from tests.sim.engine.world import STEPS, World

# Stories of the seeds before those are told without.
FIRST_WITH_REPLAYS = 1000
FIRST_WITH_REJECTS = 9000
FIRST_WITH_RESYNCS = 40_001
FIRST_WITHOUT_KEYS = 50_003
FIRST_WITH_TRUNCATIONS = 70_006


def world_of(seed: int, bug: Bug | None = None) -> World:
    """What a seed is about: from some on every other one has replays in it, every third one bad rows, later ones
    resyncs, or no keys, or truncations."""
    if seed >= FIRST_WITH_TRUNCATIONS and seed % 9 == 4:
        return TruncatedWorld(seed, bug) if seed % 2 else TruncatedReplayedWorld(seed, bug)
    if seed >= FIRST_WITH_RESYNCS and seed % 4 == 1:
        return ResyncedWorld(seed, bug)
    if seed >= FIRST_WITHOUT_KEYS and seed % 8 == 3:
        return KeylessWorld(seed, bug)
    replayed = seed >= FIRST_WITH_REPLAYS and seed % 2 == 0
    partial = seed >= FIRST_WITH_PARTIAL_EVENTS and seed % 6 == 3
    spoilt = seed >= FIRST_WITH_REJECTS and seed % 3 == 0 and not partial
    match replayed, spoilt:
        case True, True:
            return SpoiltReplayedWorld(seed, bug)
        case True, False:
            return ReplayedWorld(seed, bug)
        case False, True:
            return SpoiltWorld(seed, bug)
        case _:
            return World(seed, bug)


def run_seed(seed: int, bug: Bug | None = None, steps: int = STEPS) -> Outcome:
    """The story of a seed; what fails carries the story with it."""
    world = world_of(seed, bug)
    try:
        return world.run(steps)
    except Exception as error:
        error.add_note("\n".join(world.story))
        raise
