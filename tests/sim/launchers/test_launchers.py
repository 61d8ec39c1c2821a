"""Some seeds of the campaign `launchers`, and the planted bugs with the seeds that detect them."""

from __future__ import annotations

import pytest

from tests.sim.launchers.bugs import BUGS
from tests.sim.launchers.run import STORES, run_seed, store_of
from tests.sim.launchers.seeds import FOUND_BY, REGRESSIONS
from tests.sim.launchers.world import Broken

QUICK = [seed for seed in range(100, 110) if store_of(seed) != "dynamodb"]
VARIED = [seed for seed in range(301, 325, 2) if store_of(seed) != "dynamodb"]
SLOW = 160  # on moto's DynamoDB


@pytest.mark.parametrize("seed", [*REGRESSIONS, *QUICK, *VARIED, SLOW])
def test_every_commit_is_merged_and_no_run_is_launched_twice(seed: int) -> None:
    run_seed(seed)


@pytest.mark.parametrize(("bug", "seed"), FOUND_BY.items())
def test_planted_bug_is_detected(bug: str, seed: int) -> None:
    with pytest.raises(Broken):
        run_seed(seed, bug)


def test_every_store_has_a_seed() -> None:
    assert {store_of(seed) for seed in (*QUICK, SLOW)} == set(STORES)


def test_every_planted_bug_has_a_seed() -> None:
    assert set(FOUND_BY) == set(BUGS)


def test_seed_replays_identically() -> None:
    assert run_seed(QUICK[0]) == run_seed(QUICK[0])
