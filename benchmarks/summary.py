"""From seconds to statements: medians, spreads, ratios to the peer, and whether the aims were reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.messages import Timed
from benchmarks.result import Run, SystemRun
from benchmarks.systems.catalogue import OURS, PEER

MOST_GROWTH = 1.5
LEAST_SPEEDUP = 3.0


@dataclass(frozen=True)
class Spread:
    """The middle and both ends of some measurements."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Aim:
    """Something that was promised, and what was measured."""

    text: str
    measured: float
    met: bool


def warm_batches(run: SystemRun) -> Sequence[Timed]:
    """All batches but the first, which is the warm-up (unless it is the only one)."""
    return run.batches[1:] or run.batches


def spread(values: Sequence[float]) -> Spread:
    """Median, least and greatest."""
    return Spread(median(values), min(values), max(values))


def warm_seconds(run: SystemRun) -> Spread:
    """Seconds of a warm batch."""
    return spread([batch.seconds for batch in warm_batches(run)])


def speedup(run: Run, workload: str) -> float | None:
    """How many times faster than the peer a warm batch is: the ratio of the medians."""
    both = run.workload(workload)
    if both is None or not {OURS, PEER} <= both.systems.keys():
        return None
    return warm_seconds(both.systems[PEER]).middle / warm_seconds(both.systems[OURS]).middle


def growth(run: Run, system: str) -> float | None:
    """How much longer a warm small batch takes where the table is ten times as large."""
    small, tenth = run.workload("small"), run.workload("small-tenth")
    if small is None or tenth is None or system not in small.systems or system not in tenth.systems:
        return None
    return warm_seconds(small.systems[system]).middle / warm_seconds(tenth.systems[system]).middle


def judge_aims(run: Run) -> list[Aim]:
    """The aims that this run can tell something about."""
    aims: list[Aim] = []
    small, tenth = run.workload("small"), run.workload("small-tenth")
    grown = growth(run, OURS)
    if grown is not None and small is not None and tenth is not None:
        text = f"{small.title} in at most {MOST_GROWTH} × the time of {tenth.rows:,} rows"
        aims.append(Aim(text, grown, grown <= MOST_GROWTH))
    faster = speedup(run, "small")
    if faster is not None and small is not None:
        text = f"at least {LEAST_SPEEDUP:.0f} × as fast as MERGE for {small.title}"
        aims.append(Aim(text, faster, faster >= LEAST_SPEEDUP))
    return aims


def steps_of(run: SystemRun) -> dict[str, float]:
    """The median of each step over the warm batches, in the order in which the steps come."""
    batches = warm_batches(run)
    names = list(dict.fromkeys(name for batch in batches for name in batch.steps))
    return {name: median([batch.steps.get(name, 0.0) for batch in batches]) for name in names}
