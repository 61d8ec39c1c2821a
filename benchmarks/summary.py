"""Summaries of seconds: medians and spreads, growth, and speed compared with peers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from benchmarks.messages import Timed
from benchmarks.result import Run, WorkloadRun
from benchmarks.systems.catalogue import OURS

_AROUND = 9  # merges whose median represents one merge
HUNDRED = 100


@dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum of measurements."""

    middle: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Return median, minimum and maximum."""
    return Spread(median(values), min(values), max(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that `percent` of the values do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def warm_batches(run: WorkloadRun) -> Sequence[Timed]:
    """Return all batches except the first, which is the warm-up (unless it is the only one)."""
    return run.batches[1:] or run.batches


def warm_seconds(run: WorkloadRun) -> Spread:
    """Return the seconds of a warm batch."""
    return spread([batch.seconds for batch in warm_batches(run)])


def by_events(run: WorkloadRun) -> dict[int, Spread]:
    """Return the seconds of a batch by its size; the first batch of each size is the warm-up."""
    seconds: dict[int, list[float]] = {}
    for events, batch in zip(run.events, run.batches, strict=True):
        seconds.setdefault(events, []).append(batch.seconds)
    return {events: spread(found[1:] or found) for events, found in sorted(seconds.items())}


def median_around(run: WorkloadRun, number: int) -> float:
    """Return the median of the merges around one, counted from 1, because a single merge is too noisy."""
    first = max(1, min(number - _AROUND // 2, len(run.batches) - _AROUND + 1))
    near = run.batches[first - 1 : first - 1 + _AROUND]
    return median([batch.seconds for batch in near])


def mean_before(run: WorkloadRun, number: int) -> float:
    """Return the mean of up to a hundred merges before one, including work that follows only some of them."""
    return fmean(batch.seconds for batch in run.batches[max(1, number - HUNDRED) : number])


def repeated(run: Run) -> WorkloadRun | None:
    """Return the run of many merges."""
    return run.workloads("repeated").get("repeated", {}).get(OURS)


def steps_of(run: WorkloadRun) -> dict[str, float]:
    """Return the median of each step over the warm batches, in the order of the steps."""
    batches = warm_batches(run)
    names = list(dict.fromkeys(name for batch in batches for name in batch.steps))
    return {name: median([batch.steps.get(name, 0.0) for batch in batches]) for name in names}
