"""Some seeds of the campaign `launchers`, and the planted defects with the seeds that detect them."""

from __future__ import annotations

import pytest

from tests.sim.launchers.planted_defects import PLANTED
from tests.sim.launchers.run import STORES, run_seed, store_of
from tests.sim.launchers.seeds import FOUND_BY, REGRESSIONS
from tests.sim.launchers.world import Broken

QUICK = [seed for seed in range(100, 110) if store_of(seed) != "dynamodb"]
VARIED = [seed for seed in range(301, 325, 2) if store_of(seed) != "dynamodb"]
SLOW = 160  # on moto's DynamoDB


@pytest.mark.parametrize("seed", [*REGRESSIONS, *QUICK, *VARIED, SLOW])
def test_every_commit_is_merged_and_no_run_is_launched_twice(seed: int) -> None:
    run_seed(seed)


@pytest.mark.parametrize(("defect", "seed"), FOUND_BY.items())
def test_planted_defect_is_detected(defect: str, seed: int) -> None:
    with pytest.raises(Broken):
        run_seed(seed, defect)


def test_every_store_has_a_seed() -> None:
    assert {store_of(seed) for seed in (*QUICK, SLOW)} == set(STORES)


def test_every_planted_bug_has_a_seed() -> None:
    assert set(FOUND_BY) == set(PLANTED)


def test_seed_replays_identically() -> None:
    assert run_seed(QUICK[0]) == run_seed(QUICK[0])
