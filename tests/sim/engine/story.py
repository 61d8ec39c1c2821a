"""The story of a seed, by its number alone."""

from __future__ import annotations

from tests.sim.engine.bugs import Bug
from tests.sim.engine.keyless import KeylessWorld
from tests.sim.engine.replays import ReplayedWorld
from tests.sim.engine.resyncs import ResyncedWorld
from tests.sim.engine.world import STEPS, Outcome, World

# Stories of the seeds before those are told without.
FIRST_WITH_REPLAYS = 1000
FIRST_WITH_RESYNCS = 40_001
FIRST_WITHOUT_KEYS = 50_003


def world_of(seed: int, bug: Bug | None = None) -> World:
    """What a seed is about: from some on every other one has replays in it, later ones resyncs, or no keys."""
    if seed >= FIRST_WITH_REPLAYS and seed % 2 == 0:
        return ReplayedWorld(seed, bug)
    if seed >= FIRST_WITH_RESYNCS and seed % 4 == 1:
        return ResyncedWorld(seed, bug)
    if seed >= FIRST_WITHOUT_KEYS and seed % 8 == 3:
        return KeylessWorld(seed, bug)
    return World(seed, bug)


def run_seed(seed: int, bug: Bug | None = None, steps: int = STEPS) -> Outcome:
    """The story of a seed; what fails carries the story with it."""
    world = world_of(seed, bug)
    try:
        return world.run(steps)
    except Exception as error:
        error.add_note("\n".join(world.story))
        raise
