"""Few changes into a large table: half of them new rows, a quarter updates, a quarter deletes, uniformly chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.workloads.workload import KeyChanges, Shape


@dataclass(frozen=True)
class SmallBatches:
    """1,000 inserts, 500 updates and 500 deletes in a batch of 2,000, as in the key-index proof of concept."""

    name: str
    shape: Shape
    rows: int
    events: tuple[int, ...]

    @property
    def title(self) -> str:
        """Return the description for readers."""
        sizes = sorted(set(self.events))
        size_text = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        keys = ", text keys" if self.shape.name == "uuid" else ""
        return f"{size_text} events into {self.rows:,} rows{keys}"

    def change(self, number: int, rng: np.random.Generator) -> KeyChanges:
        """Return the changes of a batch: new rows above all existing ids, updates and deletes of rows of the base."""
        events = self.events[number]
        inserts, updates = events // 2, events // 4
        deletes = events - inserts - updates
        first = self.rows + sum(size // 2 for size in self.events[:number])
        changed = rng.choice(self.rows, updates + deletes, replace=False)
        return KeyChanges(
            np.concatenate([np.arange(first, first + inserts), changed]),
            np.repeat(["INSERT", "UPDATE", "DELETE"], [inserts, updates, deletes]),
        )
