"""The world of a seed, chosen by its number alone."""

from __future__ import annotations

from tests.sim.engine.keyless import KeylessWorld
from tests.sim.engine.outcome import Outcome
from tests.sim.engine.planted import PlantedDefect
from tests.sim.engine.rejects import RejectsWorld, ReplayedRejectsWorld
from tests.sim.engine.replays import ReplayedWorld
from tests.sim.engine.resyncs import ResyncedWorld
from tests.sim.engine.setting import FIRST_WITH_PARTIAL_EVENTS
from tests.sim.engine.truncations import TruncatedReplayedWorld, TruncatedWorld
from tests.sim.engine.world import STEPS, World

# Earlier seeds run without these features and keep their traces.
FIRST_WITH_REPLAYS = 1000
FIRST_WITH_REJECTS = 9000
FIRST_WITH_RESYNCS = 40_001
FIRST_WITHOUT_KEYS = 50_003
FIRST_WITH_TRUNCATIONS = 70_006


def world_of(seed: int, defect: PlantedDefect | None = None) -> World:
    """Return the world of a seed: later seeds add replays, bad rows, resyncs, tables without a key, and truncations."""
    if seed >= FIRST_WITH_TRUNCATIONS and seed % 9 == 4:
        return TruncatedWorld(seed, defect) if seed % 2 else TruncatedReplayedWorld(seed, defect)
    if seed >= FIRST_WITH_RESYNCS and seed % 4 == 1:
        return ResyncedWorld(seed, defect)
    if seed >= FIRST_WITHOUT_KEYS and seed % 8 == 3:
        return KeylessWorld(seed, defect)
    replayed = seed >= FIRST_WITH_REPLAYS and seed % 2 == 0
    partial = seed >= FIRST_WITH_PARTIAL_EVENTS and seed % 6 == 3
    rejects = seed >= FIRST_WITH_REJECTS and seed % 3 == 0 and not partial
    match replayed, rejects:
        case True, True:
            return ReplayedRejectsWorld(seed, defect)
        case True, False:
            return ReplayedWorld(seed, defect)
        case False, True:
            return RejectsWorld(seed, defect)
        case _:
            return World(seed, defect)


def run_seed(seed: int, defect: PlantedDefect | None = None, steps: int = STEPS) -> Outcome:
    """Run a seed; an error has the trace in its notes."""
    world = world_of(seed, defect)
    try:
        return world.run(steps)
    except Exception as error:
        error.add_note("\n".join(world.trace))
        raise
