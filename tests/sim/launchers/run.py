"""One seed, on the store that it chooses."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

from tests.sim.launchers.planted_defects import PLANTED
from tests.sim.launchers.stores import open_store
from tests.sim.launchers.world import World

STORES = ("sqlite", "kubernetes", "dynamodb")
SHARES = (6, 3, 1)  # of the seeds: moto is slow


def store_of(seed: int) -> str:
    """Return the store of a seed."""
    return random.Random(f"store {seed}").choices(STORES, SHARES)[0]


def run_seed(seed: int, defect: str | None = None) -> Counter[str]:
    """Run a seed; return counts. Raise `Broken` if an invariant is violated."""
    store, planted = store_of(seed), PLANTED[defect]() if defect else nullcontext()
    with tempfile.TemporaryDirectory() as folder, planted, open_store(store, Path(folder)) as opened:
        return World(seed, Path(folder), opened).run() + Counter([f"state in {store}"])
