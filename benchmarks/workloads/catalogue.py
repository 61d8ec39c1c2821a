"""The workloads of a run, by the size of its largest table."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.workloads.small_batches import SmallBatches
from benchmarks.workloads.uniform_batches import UniformBatches
from benchmarks.workloads.workload import Workload

FULL_ROWS = 10_000_000
QUICK_ROWS = 50_000
QUICK_ROUNDS = 2
NAMES = ("small-tenth", "small", "large")


def choose_workloads(rows: int, rounds: int | None) -> tuple[Workload, ...]:
    """Small batches into a tenth of the rows and into all of them; a tenth of the rows as one batch."""
    small = SmallBatches(name="small", rows=rows)
    tenth = replace(small, name="small-tenth", rows=rows // 10)
    large = UniformBatches(name="large", rows=rows, events=rows // 10)
    if rounds is None:
        return tenth, small, large
    return replace(tenth, rounds=rounds), replace(small, rounds=rounds), replace(large, rounds=rounds)
