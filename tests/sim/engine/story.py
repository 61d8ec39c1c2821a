"""The story of a seed, by its number alone."""

from __future__ import annotations

from tests.sim.engine.bugs import Bug
from tests.sim.engine.rejects import SpoiltReplayedWorld, SpoiltWorld
from tests.sim.engine.replays import ReplayedWorld
from tests.sim.engine.setting import FIRST_WITH_PARTIAL_EVENTS
from tests.sim.engine.world import STEPS, Outcome, World

FIRST_WITH_REPLAYS = 1000  # stories of the seeds before that are told without
FIRST_WITH_REJECTS = 9000


def world_of(seed: int, bug: Bug | None = None) -> World:
    """What a seed is about: from some seed on every other one has replays in it, and every third one bad rows."""
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
