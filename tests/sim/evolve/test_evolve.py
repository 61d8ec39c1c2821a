"""Columns change between commits, merges die between slices: every snapshot matches the source's record."""

from __future__ import annotations

import random
import time

import pytest

from tests.sim.engine.soak import SHOWS
from tests.sim.evolve.bugs import BUGS
from tests.sim.evolve.world import run_seed

SEEDS = 40
REGRESSIONS = (
    101,  # a struct with a promoted field is dropped, and rows from before the drop are merged later
    1527,  # a column that a rebuild started with is dropped before it ends
)
FRESH_SECONDS = 30
MOST_SEEDS = 60


@pytest.mark.parametrize("seed", [*range(SEEDS), *REGRESSIONS])
def test_seeds_hold(seed: int) -> None:
    assert run_seed(seed).snapshots > 0


@pytest.mark.soak
def test_fresh_seeds_hold() -> None:
    end = time.monotonic() + FRESH_SECONDS
    while time.monotonic() < end:
        run_seed(random.SystemRandom().randrange(1 << 32))


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(BUGS))
def test_planted_mistake_is_found(name: str) -> None:
    for seed in range(MOST_SEEDS):
        try:
            run_seed(seed, BUGS[name])
        except SHOWS:
            return
    pytest.fail(f"{MOST_SEEDS} seeds do not find: {name}")


def test_a_seed_tells_the_same_story_every_time() -> None:
    assert run_seed(3) == run_seed(3)
