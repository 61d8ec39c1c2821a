"""The deep bounds of the model check, for `make soak`; alone: `python -m tests.sim.protocol.soak`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from tests.sim.protocol.bounds import DEEP, SMALL
from tests.sim.protocol.model import Model
from tests.sim.protocol.search import check


def explore() -> Iterator[tuple[str, int, float, str]]:
    """Bounds, states, seconds, and what does not hold ("" if all does), for one world after another."""
    for name, bounds in {**SMALL, **DEEP}.items():
        began = time.monotonic()
        verdict = check(Model(**bounds))
        why = verdict.why and f"{verdict.why}: {' | '.join(verdict.trace)}"
        yield name, verdict.states, time.monotonic() - began, why


if __name__ == "__main__":
    failed = False
    for name, states, seconds, why in explore():
        failed = failed or bool(why)
        print(f"{name:52s} {states:9,d} states {seconds:6.1f} s  {why or 'holds'}", flush=True)
    sys.exit(failed)
