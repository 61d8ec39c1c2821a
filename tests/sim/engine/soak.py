"""Seeds of the simulation for as long as told, on all cores; where the last run stopped, the next goes on."""

from __future__ import annotations

import os
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context

from tests.sim.engine.bugs import BUGS
from tests.sim.engine.world import run_seed

MOST_SEEDS = 500
COMMAND = "python -m tests.sim.engine"


@dataclass(frozen=True)
class Told:
    """What one seed came to: how long it took, and why it failed, if it did."""

    seed: int
    seconds: float
    snapshots: int = 0
    deaths: tuple[str, ...] = ()
    why: str | None = None


@dataclass
class Total:
    """All seeds so far."""

    next_seed: int = 0
    seeds: int = 0
    seconds: float = 0.0
    snapshots: int = 0
    deaths: dict[str, int] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)

    def add(self, told: Told) -> None:
        """Counts a seed."""
        self.next_seed = max(self.next_seed, told.seed + 1)
        self.seeds += 1
        self.seconds += told.seconds
        self.snapshots += told.snapshots
        self.deaths = dict(Counter(self.deaths) + Counter(told.deaths))
        if told.why:
            self.failed.append(told.seed)


def tell(seed: int) -> Told:
    """Runs one seed; never fails."""
    began = time.monotonic()
    try:
        outcome = run_seed(seed)
    except Exception:
        return Told(seed, time.monotonic() - began, why=traceback.format_exc())
    return Told(seed, time.monotonic() - began, outcome.snapshots, tuple(outcome.deaths))


def tell_for(seconds: float, first: int, telling: Callable[[int], Told] = tell) -> Iterator[Told]:
    """Seeds from the first on, one after the other on each core, until the time is over."""
    end = time.monotonic() + seconds
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running: set[Future[Told]] = set()
        seed = first
        while running or time.monotonic() < end:
            while len(running) < workers and time.monotonic() < end:
                running.add(pool.submit(telling, seed))
                seed += 1
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)


def first_seed_that_finds(name: str, most: int = MOST_SEEDS) -> int | None:
    """The first seed in which a planted mistake shows."""
    for seed in range(most):
        try:
            run_seed(seed, BUGS[name])
        except Exception:  # whatever it is, it was found
            return seed
    return None
