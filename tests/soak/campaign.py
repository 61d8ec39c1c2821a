"""A campaign: seeds that run one after the other on several processes, and their results."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


def _prepare_nothing() -> None: ...


@dataclass(frozen=True)
class Campaign:
    """`run` takes a seed and optionally a planted defect, returns counts, and raises if an invariant is violated.

    `prepare` is called once in each process; `command` runs one seed again. Seeds below `first` were run before the
    campaign had all its features.
    """

    name: str
    about: str
    run: Callable[[int, str | None], Counter[str]]
    command: str
    prepare: Callable[[], None] = _prepare_nothing
    first: int = 0
    processes: int = os.cpu_count() or 1
    most_seconds: float | None = None  # CPU time of one seed
    patience_seconds: int = 600  # elapsed time of one seed


@dataclass(frozen=True)
class SeedResult:
    """The result of one seed: its duration, the peak memory of its process, and the reason if it failed."""

    seed: int
    seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)
    peak_bytes: int = 0
    why: str | None = None


@dataclass
class Total:
    """All seeds of a campaign so far."""

    next_seed: int = 0
    seeds: int = 0
    seconds: float = 0.0
    longest_seconds: float = 0.0
    peak_bytes: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)
    fixed: list[int] = field(default_factory=list)  # failed before, and pass now

    def add(self, result: SeedResult) -> None:
        """Count a seed; one that had failed is not counted twice."""
        if result.seed in self.failed:
            if not result.why:
                self.failed.remove(result.seed)
                self.fixed.append(result.seed)
            return
        self.next_seed = max(self.next_seed, result.seed + 1)
        self.seeds += 1
        self.seconds += result.seconds
        self.longest_seconds = max(self.longest_seconds, result.seconds)
        self.peak_bytes = max(self.peak_bytes, result.peak_bytes)
        self.counts = dict(Counter(self.counts) + Counter(result.counts))
        if result.why:
            self.failed.append(result.seed)

    def lines(self) -> list[str]:
        """Return the totals as lines of text."""
        average = self.seconds / max(self.seeds, 1)
        failed = f"{len(self.failed)} failed{f': {self.failed}' if self.failed else ''}"
        return [
            f"{self.seeds:,d} seeds, {failed}, {len(self.fixed)} fixed",
            f"{average:.2f} s each, {self.longest_seconds:.1f} s and {self.peak_bytes >> 20} MiB at most",
            *(f"{count:10,d} {name}" for name, count in sorted(self.counts.items())),
        ]
