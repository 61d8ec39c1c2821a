"""Many changes at once, uniform over the whole table: 20 % inserts, 60 % updates, 20 % deletes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.workloads.narrow_rows import SHAPE, make_narrow_rows
from benchmarks.workloads.workload import Ids, KeyChanges

_OPERATIONS = ("INSERT", "UPDATE", "DELETE")
_SHARES = (0.2, 0.6, 0.2)


@dataclass(frozen=True)
class UniformBatches:
    """A key may occur several times in a batch, in any order of operations; its last event counts."""

    name: str
    rows: int
    events: int
    rounds: int = 3
    group: str = "large"
    shape: str = SHAPE

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"{self.events:,} events into {self.rows:,} rows"

    def make_rows(self, ids: Ids, rng: np.random.Generator) -> pa.Table:
        """Narrow rows."""
        return make_narrow_rows(ids, rng)

    def change(self, number: int, rng: np.random.Generator) -> KeyChanges:
        """Ids up to 2 % beyond the base, so that some are new."""
        del number
        return KeyChanges(
            rng.integers(0, self.rows + self.rows // 50, self.events),
            rng.choice(_OPERATIONS, self.events, p=_SHARES),
        )
