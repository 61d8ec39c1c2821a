"""Mutated files: repaired or a specific error, never a wrong row, never much time or memory; planted bugs are found."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.sim.mutation.bugs import BUGS
from tests.sim.mutation.kinds import KINDS
from tests.sim.mutation.mutations import MUTATIONS, Mutation, Original
from tests.sim.mutation.seeds import FOUND_BY, REGRESSIONS
from tests.sim.mutation.soak import MOST_BYTES, MUTATION
from tests.sim.mutation.state import state_of
from tests.soak.worker import Worker

FRESH_SECONDS = 6


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with closing(Worker(MUTATION)) as worker:
        yield worker


def test_fixed_seeds_hold_within_the_memory_bound(worker: Worker) -> None:
    results = [worker.try_seed(seed) for seed in range(30)]
    assert [f"{MUTATION.command} {one.seed}\n{one.why}" for one in results if one.why is not None] == []
    assert 0 < max(one.peak_bytes for one in results) < MOST_BYTES


@pytest.mark.soak
def test_fresh_seeds_hold(worker: Worker) -> None:
    end, peak = time.monotonic() + FRESH_SECONDS, 0
    while time.monotonic() < end:
        result = worker.try_seed(random.SystemRandom().randrange(1 << 32))
        assert result.why is None, f"{MUTATION.command} {result.seed}\n{result.why}"
        peak = max(peak, result.peak_bytes)
    assert 0 < peak < MOST_BYTES


@pytest.mark.parametrize("seed", sorted({*REGRESSIONS, *FOUND_BY.values()}))
def test_seeds_that_found_something_hold_now(worker: Worker, seed: int) -> None:
    assert worker.try_seed(seed).why is None


@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_check_that_is_left_out_is_found(worker: Worker, name: str) -> None:
    assert worker.try_seed(FOUND_BY[name], name).why is not None


def test_each_left_out_check_has_its_seed() -> None:
    assert FOUND_BY.keys() == BUGS.keys()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.__name__)
def test_a_mutation_is_the_same_every_time(mutation: Mutation) -> None:
    state = state_of(KINDS[0])
    for paths in state.targets.values():
        of = Original(state.files[paths[0]], [b"other"])
        assert mutation(of, random.Random(3)) == mutation(of, random.Random(3))
