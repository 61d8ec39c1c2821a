"""Mutated files: healed or refused by name, never a wrong row, never much time or memory; left-out checks are found."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from tests.sim.mutation.bugs import BUGS
from tests.sim.mutation.kinds import KINDS
from tests.sim.mutation.mutations import MUTATIONS, Mutation, Original
from tests.sim.mutation.seeds import FOUND_BY, REGRESSIONS
from tests.sim.mutation.soak import COMMAND, MOST_BYTES, Told, Total, Worker
from tests.sim.mutation.state import state_of

FRESH_SECONDS = 6


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


def test_fresh_seeds_hold(worker: Worker) -> None:
    end, total = time.monotonic() + FRESH_SECONDS, Total()
    while time.monotonic() < end:
        told = worker.tell(random.SystemRandom().randrange(1 << 32))
        assert told.why is None, f"{COMMAND} {told.seed}\n{told.why}"
        total.add(told)
    assert 0 < total.peak_bytes < MOST_BYTES


@pytest.mark.parametrize("seed", sorted({*REGRESSIONS, *FOUND_BY.values()}))
def test_seeds_that_found_something_hold_now(worker: Worker, seed: int) -> None:
    assert worker.tell(seed).why is None


@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_check_that_is_left_out_is_found(worker: Worker, name: str) -> None:
    assert worker.tell(FOUND_BY[name], name).why is not None


def test_each_left_out_check_has_its_seed() -> None:
    assert FOUND_BY.keys() == BUGS.keys()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.__name__)
def test_a_mutation_is_the_same_every_time(mutation: Mutation) -> None:
    state = state_of(KINDS[0])
    for paths in state.targets.values():
        of = Original(state.files[paths[0]], [b"other"])
        assert mutation(of, random.Random(3)) == mutation(of, random.Random(3))


def test_who_hangs_or_dies_is_told_of_and_the_next_seed_runs(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker._process.kill()
    assert "the process died" in str(worker.tell(1).why)
    assert worker.tell(1).why is None
    monkeypatch.setattr("tests.sim.mutation.soak.PATIENCE_SECONDS", 0)
    assert "it took more than" in str(worker.tell(2).why)


def test_the_total_counts_on_and_keeps_what_failed() -> None:
    total = Total()
    total.add(Told(5, 0.5, 1 << 20, "index root", "merged"))
    total.add(Told(6, 1.5, 3 << 20, why="wrong"))
    assert (total.next_seed, total.files, total.failed) == (7, 2, [6])
    assert total.lines()[1:] == ["1.00 s each, 1.5 s and 3 MiB at most", "       1 index root: merged"]
