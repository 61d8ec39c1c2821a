"""Mutated files: repaired or a specific error, never a wrong row, bounded time and memory; disabled checks show."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.sim.mutation.kinds import KINDS
from tests.sim.mutation.mutations import MUTATIONS, Mutation, Original
from tests.sim.mutation.planted_defects import PLANTED
from tests.sim.mutation.seeds import FOUND_BY, REGRESSIONS
from tests.sim.mutation.soak import MAX_BYTES, MUTATION
from tests.sim.mutation.state import state_of
from tests.soak.worker import Worker

FRESH_SECONDS = 6


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with closing(Worker(MUTATION)) as worker:
        yield worker


def test_fixed_seeds_pass_within_the_memory_limit(worker: Worker) -> None:
    results = [worker.try_seed(seed) for seed in range(30)]
    assert [
        f"{MUTATION.command} {result.seed}\n{result.why}" for result in results if result.why is not None
    ] == []
    assert 0 < max(result.peak_bytes for result in results) < MAX_BYTES


@pytest.mark.soak
def test_fresh_seeds_pass(worker: Worker) -> None:
    end, peak = time.monotonic() + FRESH_SECONDS, 0
    while time.monotonic() < end:
        result = worker.try_seed(random.SystemRandom().randrange(1 << 32))
        assert result.why is None, f"{MUTATION.command} {result.seed}\n{result.why}"
        peak = max(peak, result.peak_bytes)
    assert 0 < peak < MAX_BYTES


@pytest.mark.parametrize("seed", sorted({*REGRESSIONS, *FOUND_BY.values()}))
def test_seeds_that_detected_a_bug_pass(worker: Worker, seed: int) -> None:
    assert worker.try_seed(seed).why is None


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_disabled_check_is_detected(worker: Worker, name: str) -> None:
    assert worker.try_seed(FOUND_BY[name], name).why is not None


def test_every_disabled_check_has_a_seed() -> None:
    assert FOUND_BY.keys() == PLANTED.keys()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_mutation_is_deterministic(mutation: Mutation) -> None:
    state = state_of(KINDS[0])
    for paths in state.targets.values():
        original = Original(state.files[paths[0]], [b"other"])
        assert mutation(original, random.Random(3)) == mutation(original, random.Random(3))
