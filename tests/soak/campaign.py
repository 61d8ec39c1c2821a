"""A campaign: seeds that are run one after the other on several processes, and what each of them came to."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


def _nothing() -> None: ...


@dataclass(frozen=True)
class Campaign:
    """`run` takes a seed and perhaps the name of a planted mistake, counts what it saw, and raises what must not be.

    `prepare` is called once in each process; `command` tells the story of a seed again. Seeds below `first` were run
    while the campaign knew less.
    """

    name: str
    about: str
    run: Callable[[int, str | None], Counter[str]]
    command: str
    prepare: Callable[[], None] = _nothing
    first: int = 0
    processes: int = os.cpu_count() or 1
    most_seconds: float | None = None  # of the processor, for one seed
    patience_seconds: int = 600  # of the clock


@dataclass(frozen=True)
class Told:
    """What one seed came to: how long it took, the most memory its process ever had, and why it failed, if it did."""

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
    mended: list[int] = field(default_factory=list)  # failed once, and hold now

    def add(self, told: Told) -> None:
        """Counts a seed; one that had failed is not counted twice."""
        if told.seed in self.failed:
            if not told.why:
                self.failed.remove(told.seed)
                self.mended.append(told.seed)
            return
        self.next_seed = max(self.next_seed, told.seed + 1)
        self.seeds += 1
        self.seconds += told.seconds
        self.longest_seconds = max(self.longest_seconds, told.seconds)
        self.peak_bytes = max(self.peak_bytes, told.peak_bytes)
        self.counts = dict(Counter(self.counts) + Counter(told.counts))
        if told.why:
            self.failed.append(told.seed)

    def lines(self) -> list[str]:
        """In words."""
        each = self.seconds / max(self.seeds, 1)
        failed = f"{len(self.failed)} failed{f': {self.failed}' if self.failed else ''}"
        return [
            f"{self.seeds:,d} seeds, {failed}, {len(self.mended)} mended",
            f"{each:.2f} s each, {self.longest_seconds:.1f} s and {self.peak_bytes >> 20} MiB at most",
            *(f"{count:10,d} {name}" for name, count in sorted(self.counts.items())),
        ]
