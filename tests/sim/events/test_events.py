"""Forged events do nothing, and the mistakes that would let them are found."""

from __future__ import annotations

import random
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.sim.events.bugs import BUGS
from tests.sim.events.run import EVENTS, run, some_seeds


def test_forged_events_do_nothing() -> None:
    first = random.SystemRandom().randrange(1 << 40)
    # In a process of its own: what other tests pile up in this one is not the product's.
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        seeds, counts = process.submit(some_seeds, first, 10.0).result()
    assert counts["events"] == seeds * EVENTS
    missing = {
        "malformed",
        "too-large",
        "too-deep",
        "unsafe-key",
        "foreign-bucket",
        "unregistered",
    } - counts.keys()
    assert not missing, counts


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_planted_mistake_is_found(bug: str) -> None:
    for seed in range(20):
        try:
            run(seed, bug)
        except AssertionError:
            return
    pytest.fail("20 seeds did not find it")
