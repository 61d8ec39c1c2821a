"""Peak memory of an initial load with the default settings: driver, Java and Python workers together."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.dataset import make_base
from benchmarks.messages import Load
from benchmarks.parts.scale import Scale
from benchmarks.result import Absent, Memory
from benchmarks.sampler import MemorySampler, can_sample
from benchmarks.systems.catalogue import OURS
from benchmarks.workloads.narrow_rows import NARROW

_DEFAULT_DRIVER_MEMORY = "1g"


def measure_memory(scale: Scale, bench: Bench) -> Memory | Absent:
    """Measure the peak total during the load."""
    if not can_sample():
        return Absent(reason="this system does not report the memory of processes (Linux does)")
    bench.progress.step(f"data: {scale.memory_rows:,} rows")
    files = make_base(NARROW, scale.memory_rows)
    with bench.open(OURS, _DEFAULT_DRIVER_MEMORY) as process:
        bench.progress.step(f"{OURS}: load {scale.memory_rows:,} rows, sampling memory")
        with MemorySampler(process.group) as sampler:
            timed = bench.progress.record(process.load(Load(table="memory", files=files)))
    return Memory(
        rows=scale.memory_rows,
        seconds=timed.seconds,
        peak_bytes=sampler.peak_bytes,
        peak_by_process=sampler.peak_by_process,
    )
