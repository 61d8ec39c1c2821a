"""Few changes into a large table: half of them new rows, a quarter updates, a quarter deletes, uniformly chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.workloads.narrow_rows import SHAPE, make_narrow_rows
from benchmarks.workloads.workload import Ids, KeyChanges


@dataclass(frozen=True)
class SmallBatches:
    """1,000 inserts, 500 updates and 500 deletes a batch by default, as in the key-index proof of concept."""

    name: str
    rows: int
    rounds: int = 8
    events: int = 2_000
    group: str = "small"
    shape: str = SHAPE

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"{self.events:,} events into {self.rows:,} rows"

    def make_rows(self, ids: Ids, rng: np.random.Generator) -> pa.Table:
        """Narrow rows."""
        return make_narrow_rows(ids, rng)

    def change(self, number: int, rng: np.random.Generator) -> KeyChanges:
        """New rows above all ids so far, changes below the first id that was not in the base."""
        inserts = self.events // 2
        updates = self.events // 4
        deletes = self.events - inserts - updates
        first = self.rows + number * inserts
        changed = rng.choice(self.rows, updates + deletes, replace=False)
        return KeyChanges(
            np.concatenate([np.arange(first, first + inserts), changed]),
            np.repeat(["INSERT", "UPDATE", "DELETE"], [inserts, updates, deletes]),
        )
