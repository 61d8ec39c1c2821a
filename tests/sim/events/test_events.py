"""Forged events do nothing, and the mistakes that would let them are found."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from tests.sim.events.bugs import BUGS
from tests.sim.events.run import EVENTS, run

SECONDS = 10.0


def test_forged_events_do_nothing() -> None:
    first, counts, end = random.SystemRandom().randrange(1 << 40), Counter[str](), time.monotonic() + SECONDS
    seed = first
    while time.monotonic() < end or seed < first + 25:
        counts += run(seed)
        seed += 1
    assert counts["events"] == (seed - first) * EVENTS
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
