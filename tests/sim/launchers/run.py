"""One seed, on the store that it chooses."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from icemirror.state.sqlite import SqliteStore
from icemirror.state.store import Store
from tests.sim.launchers.bugs import BUGS
from tests.sim.launchers.world import World

STORES = ("sqlite",)


def run_seed(seed: int, bug: str | None = None) -> Counter[str]:
    """What happened, counted; `Broken` if anything did not hold."""
    store = random.Random(f"store {seed}").choice(STORES)
    planted = BUGS[bug]() if bug else nullcontext()
    with tempfile.TemporaryDirectory() as folder, planted, open_store(store, Path(folder)) as opened:
        return World(seed, Path(folder), opened).run() + Counter([store])


@contextmanager
def open_store(kind: str, folder: Path) -> Iterator[Store]:
    """A new store of this kind."""
    with SqliteStore(folder / "state.db") as store:
        yield store
