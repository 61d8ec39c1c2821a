"""A fact table: three quarters of a batch are new rows, the rest updates of the latest days (as in lake-loader)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.workloads.wide_rows import DAYS
from benchmarks.workloads.workload import KeyChanges, Shape

_UPDATED_DAYS = 9
_ZIPF = 2.93


@dataclass(frozen=True)
class FactBatches:
    """Wide rows in 36 day partitions; updates follow Zipf's law over nine of them."""

    name: str
    shape: Shape
    rows: int
    events: tuple[int, ...]

    @property
    def title(self) -> str:
        """Return the description for readers."""
        return f"{self.events[0]:,} events, 40 columns, {DAYS} partitions, into {self.rows:,} rows"

    def change(self, number: int, rng: np.random.Generator) -> KeyChanges:
        """Return the changes of a batch. The day of a row is its id modulo the number of days, so updates keep it."""
        updates = self.events[number] // 4
        inserts = self.events[number] - updates
        first = self.rows + sum(size - size // 4 for size in self.events[:number])
        day = np.minimum(rng.zipf(_ZIPF, updates), _UPDATED_DAYS) - 1
        changed = rng.integers(0, self.rows // DAYS, updates) * DAYS + day
        return KeyChanges(
            np.concatenate([np.arange(first, first + inserts), changed]),
            np.repeat(["INSERT", "UPDATE"], [inserts, updates]),
        )
