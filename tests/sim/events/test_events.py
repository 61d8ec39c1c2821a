"""Forged events have no effect, and the campaign detects every planted defect."""

from __future__ import annotations

import random
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.sim.events.planted_defects import PLANTED
from tests.sim.events.run import EVENTS, run, run_seeds


@pytest.mark.parametrize(
    ("first", "seconds"),
    [pytest.param(0, 5.0, id="fixed"), pytest.param(None, 60.0, id="fresh", marks=pytest.mark.soak)],
)
def test_forged_events_have_no_effect(first: int | None, seconds: float) -> None:
    first = random.SystemRandom().randrange(1 << 40) if first is None else first
    # In a separate process: the memory check must not measure other tests.
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        seeds, counts = process.submit(run_seeds, first, seconds).result()
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


@pytest.mark.parametrize("defect", sorted(PLANTED))
def test_planted_defect_is_detected(defect: str) -> None:
    for seed in range(20):
        try:
            run(seed, defect)
        except AssertionError:
            return
    pytest.fail("20 seeds did not detect it")
