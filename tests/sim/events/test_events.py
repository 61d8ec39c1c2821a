"""Forged events do nothing, and the mistakes that would let them are found."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.sim.events.bugs import BUGS
from tests.sim.events.run import EVENTS, run

SECONDS = 10.0


@pytest.fixture
def no_logs() -> Iterator[None]:
    """What pytest keeps of them would count as what the product piles up."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("no_logs")
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
