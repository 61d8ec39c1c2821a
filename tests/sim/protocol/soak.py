"""The model check at all its bounds, and its planted defects, for `make soak`.

Run it alone with `python -m tests.sim.protocol.soak`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from tests.sim.protocol.bounds import DEEP, SMALL
from tests.sim.protocol.model import Model
from tests.sim.protocol.planted_defects import PLANTED
from tests.sim.protocol.search import check


class Explored(NamedTuple):
    """One model: the number of its states, and the unexpected result ("" if none)."""

    name: str
    states: int
    seconds: float
    wrong: str
    planted: bool = False

    def __str__(self) -> str:
        expected = "detected" if self.planted else "holds"
        return f"{self.name:66s} {self.states:9,d} states {self.seconds:6.1f} s  {self.wrong or expected}"


def explore() -> Iterator[Explored]:
    """Check one model after the other: first without, then with a planted defect, which must be detected."""
    for name, bounds in {**SMALL, **DEEP}.items():
        began = time.monotonic()
        verdict = check(Model(**bounds))
        wrong = verdict.why and f"{verdict.why}: {' | '.join(verdict.trace)}"
        yield Explored(name, verdict.states, time.monotonic() - began, wrong)
    for name, defect in PLANTED.items():
        began = time.monotonic()
        verdict = check(defect.model(name))
        wrong = (
            "" if verdict.why == defect.why else f"breaks {verdict.why or 'nothing'}, expected: {defect.why}"
        )
        yield Explored(f"planted: {name}", verdict.states, time.monotonic() - began, wrong, planted=True)


if __name__ == "__main__":
    failed = False
    for explored in explore():
        failed = failed or bool(explored.wrong)
        print(explored, flush=True)
    sys.exit(failed)
