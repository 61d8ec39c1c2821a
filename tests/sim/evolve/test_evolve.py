"""Columns change between commits, merges die between slices: every snapshot equals the record of the source."""

from __future__ import annotations

import random
import time

import pytest

from tests.sim.engine.soak import DETECTED
from tests.sim.evolve.planted_defects import PLANTED
from tests.sim.evolve.world import run_seed

SEEDS = 40
SEEDS_IN_EVERY_RUN = 12  # the others are for `make soak`
REGRESSIONS = (
    101,  # a struct with a promoted field is dropped, and rows from before the drop are merged later
    1527,  # a column that a rebuild started with is dropped before it ends
)
FRESH_SECONDS = 30
MAX_SEEDS = 60


@pytest.mark.parametrize("seed", [*range(SEEDS_IN_EVERY_RUN), *REGRESSIONS])
def test_fixed_seeds_pass(seed: int) -> None:
    assert run_seed(seed).snapshots > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SEEDS_IN_EVERY_RUN, SEEDS))
def test_more_fixed_seeds_pass(seed: int) -> None:
    assert run_seed(seed).snapshots > 0


@pytest.mark.soak
def test_fresh_seeds_pass() -> None:
    end = time.monotonic() + FRESH_SECONDS
    while time.monotonic() < end:
        run_seed(random.SystemRandom().randrange(1 << 32))


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(PLANTED))
def test_planted_defect_is_detected(name: str) -> None:
    for seed in range(MAX_SEEDS):
        try:
            run_seed(seed, PLANTED[name])
        except DETECTED:
            return
    pytest.fail(f"{MAX_SEEDS} seeds do not detect: {name}")


def test_seed_has_the_same_trace_every_time() -> None:
    assert run_seed(1) == run_seed(1)
