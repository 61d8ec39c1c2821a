"""The parts in the order in which they run, with their systems and estimated minutes on two idle cores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.bench import Bench
from benchmarks.parts.fleet import measure_fleet
from benchmarks.parts.latency import measure_latency
from benchmarks.parts.lookups import measure_lookups
from benchmarks.parts.memory import measure_memory
from benchmarks.parts.merges import measure_merges
from benchmarks.parts.reading import measure_reading
from benchmarks.parts.scale import Scale
from benchmarks.parts.storage import measure_storage
from benchmarks.result import Outcome
from benchmarks.systems.catalogue import OURS, PEER, SYSTEMS
from benchmarks.workloads.fact_batches import FactBatches
from benchmarks.workloads.narrow_rows import NARROW, UUID
from benchmarks.workloads.small_batches import SmallBatches
from benchmarks.workloads.uniform_batches import UniformBatches
from benchmarks.workloads.wide_rows import WIDE
from benchmarks.workloads.workload import Shape, Workload

_SIZES = ("1m", "10m", "50m")


@dataclass(frozen=True)
class Part:
    """Something to measure. `systems` are the systems that it runs on by default."""

    name: str
    about: str
    minutes: float
    systems: tuple[str, ...]
    measure: Callable[[str, Scale, Bench], Outcome]


def _rounds(system: str, ours: int, scale: Scale) -> int:
    return ours if system == OURS else min(ours, scale.peer_rounds)


def _small(prefix: str, shape: Shape, system: str, scale: Scale, bench: Bench) -> Outcome:
    """Measure all sizes for the two compared systems, and only the first for Hudi, which takes an hour at others."""
    max_sizes = {OURS: 3, PEER: 3 if shape is NARROW else 2, "hudi": 1}.get(system, 2)
    events = (scale.small_events,) * _rounds(system, scale.small_rounds, scale)
    sizes = list(zip(_SIZES, scale.tables, strict=True))[:max_sizes]
    workloads = [SmallBatches(f"{prefix}-{size}", shape, rows, events) for size, rows in sizes]
    return measure_merges(system, workloads, bench)


def _large(system: str, scale: Scale, bench: Bench) -> Outcome:
    events = (scale.large_events,) * _rounds(system, scale.large_rounds, scale)
    return measure_merges(system, [UniformBatches("large", NARROW, scale.tables[1], events)], bench)


def _wide(system: str, scale: Scale, bench: Bench) -> Outcome:
    events = (scale.wide_events,) * _rounds(system, scale.wide_rounds, scale)
    return measure_merges(system, [FactBatches("wide", WIDE, scale.wide_rows, events)], bench)


def _changes(system: str, scale: Scale, bench: Bench) -> Outcome:
    workload: Workload = SmallBatches("changes", NARROW, scale.tables[1], scale.ladder * scale.ladder_rounds)
    return measure_merges(system, [workload], bench)


def _repeated(system: str, scale: Scale, bench: Bench) -> Outcome:
    events = (scale.repeated_events,) * scale.repeated_merges
    return measure_merges(system, [SmallBatches("repeated", NARROW, scale.tables[0], events)], bench)


def _only_ours(
    measure: Callable[[Scale, Bench], Outcome], system: str, scale: Scale, bench: Bench
) -> Outcome:
    del system
    return measure(scale, bench)


_PARTS = (
    Part(
        "lookup",
        "2,000 keys in index segments of 1, 10 and 50 M entries",
        3,
        (OURS,),
        partial(_only_ours, measure_lookups),
    ),
    Part(
        "storage",
        "mirror and index compared with plain Parquet",
        2,
        (OURS,),
        partial(_only_ours, measure_storage),
    ),
    Part(
        "memory",
        "peak memory of an initial load of 20 M rows",
        2,
        (OURS,),
        partial(_only_ours, measure_memory),
    ),
    Part(
        "latency",
        "50 commits, each until its row is visible",
        4,
        (OURS,),
        partial(_only_ours, measure_latency),
    ),
    Part("fleet", "100 tables, one busy, six minutes long", 8, (OURS,), partial(_only_ours, measure_fleet)),
    Part("reading", "scans after 100 small merges", 3, (OURS,), partial(_only_ours, measure_reading)),
    Part(
        "small", "2,000 events into 1, 10 and 50 M rows", 19, tuple(SYSTEMS), partial(_small, "small", NARROW)
    ),
    Part("hashed", "the same with uuids as text for keys", 8, (OURS, PEER), partial(_small, "hashed", UUID)),
    Part(
        "large",
        "1 M events into 10 M rows",
        10,
        tuple(name for name in SYSTEMS if name != "hudi"),
        _large,
    ),
    Part("wide", "10,000 events of 1 KB, 36 partitions, into 1 M rows", 10, tuple(SYSTEMS), _wide),
    Part("changes", "200 to 200,000 events into 10 M rows", 4, (OURS, PEER), _changes),
    Part("repeated", "1,000 merges of 500 events into 1 M rows", 16, (OURS,), _repeated),
)
PARTS = {part.name: part for part in _PARTS}
