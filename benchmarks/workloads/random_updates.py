"""Updates of random rows only, to measure their effect on index and storage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.workloads.workload import KeyChanges, Shape


@dataclass(frozen=True)
class RandomUpdates:
    """Every batch updates distinct rows of the base."""

    name: str
    shape: Shape
    rows: int
    events: tuple[int, ...]

    @property
    def title(self) -> str:
        """Return the description for readers."""
        return f"{self.events[0]:,} updates of {self.rows:,} rows ({self.shape.name})"

    def change(self, number: int, rng: np.random.Generator) -> KeyChanges:
        """Return updates of distinct rows, uniform over the base."""
        events = self.events[number]
        return KeyChanges(rng.choice(self.rows, events, replace=False), np.repeat(["UPDATE"], [events]))
