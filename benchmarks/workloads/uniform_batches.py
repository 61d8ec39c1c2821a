"""Many changes at once, uniform over the whole table: 20 % inserts, 60 % updates, 20 % deletes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.workloads.workload import KeyChanges, Shape

_OPERATIONS = ("INSERT", "UPDATE", "DELETE")
_SHARES = (0.2, 0.6, 0.2)


@dataclass(frozen=True)
class UniformBatches:
    """A key may occur several times in a batch, in any order of operations; its last event counts."""

    name: str
    shape: Shape
    rows: int
    events: tuple[int, ...]

    @property
    def title(self) -> str:
        """Return the description for readers."""
        return f"{self.events[0]:,} events into {self.rows:,} rows"

    def change(self, number: int, rng: np.random.Generator) -> KeyChanges:
        """Return the changes of a batch, with ids up to 2 % beyond the base, so that some rows are new."""
        events = self.events[number]
        return KeyChanges(
            rng.integers(0, self.rows + self.rows // 50, events), rng.choice(_OPERATIONS, events, p=_SHARES)
        )
