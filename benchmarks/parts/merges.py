"""Loads the base tables, applies all workloads batch by batch and checks the results, on one system."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.bench import Bench
from benchmarks.dataset import Dataset, make_dataset
from benchmarks.fingerprint import Fingerprint
from benchmarks.messages import Apply, Inspect, Inspection, Load, Timed
from benchmarks.process import Process
from benchmarks.progress import Progress
from benchmarks.result import Merges, WorkloadRun
from benchmarks.workloads.workload import Workload


class Different(Exception):
    """A system's table does not have the expected rows; its figures are invalid."""


def measure_merges(system: str, workloads: Sequence[Workload], bench: Bench) -> Merges:
    """Measure workloads; their batches alternate, so that noise affects all of them equally."""
    datasets: list[Dataset] = []
    for workload in workloads:
        bench.progress.step(f"data: {workload.title}")
        datasets.append(make_dataset(workload))
    with bench.open(system) as process:
        loads = [
            load_table(workload, data, process, bench.progress)
            for workload, data in zip(workloads, datasets, strict=True)
        ]
        batches: list[list[Timed]] = [[] for _ in workloads]
        for number in range(max(len(workload.events) for workload in workloads)):
            for workload, data, done in zip(workloads, datasets, batches, strict=True):
                if number < len(workload.events):
                    done.append(apply_batch(workload, data, number, process, bench.progress))
        inspections = [
            inspect_table(workload, data, len(workload.events), process, bench.progress)
            for workload, data in zip(workloads, datasets, strict=True)
        ]
    return Merges(
        workloads=tuple(
            WorkloadRun(
                name=workload.name,
                title=workload.title,
                rows=workload.rows,
                events=workload.events,
                plain_bytes=data.plain_bytes,
                load=load,
                batches=tuple(done),
                inspection=inspection.figures(),
            )
            for workload, data, load, done, inspection in zip(
                workloads, datasets, loads, batches, inspections, strict=True
            )
        )
    )


def load_table(
    workload: Workload, data: Dataset, process: Process, progress: Progress, format_version: int | None = None
) -> Timed:
    """Load the base table."""
    progress.step(f"{process.name}: load {workload.rows:,} rows")
    request = Load(
        table=table_name(workload),
        files=data.base,
        partition=workload.shape.partition,
        format_version=format_version,
    )
    return progress.record(process.load(request))


def apply_batch(
    workload: Workload, data: Dataset, number: int, process: Process, progress: Progress
) -> Timed:
    """Apply one batch."""
    progress.step(f"{process.name}: {workload.title}, batch {number + 1} of {len(workload.events)}")
    return progress.record(process.apply(Apply(table=table_name(workload), batch=data.batches[number])))


def inspect_table(
    workload: Workload, data: Dataset, batches: int, process: Process, progress: Progress
) -> Inspection:
    """Return the state of the table after this number of batches; raise `Different` if its rows are wrong."""
    progress.step(f"{process.name}: check and scan {workload.title}")
    inspection = process.inspect(Inspect(table=table_name(workload)))
    require_equal(f"{process.name}, {workload.title}", inspection.fingerprint, data.expected[batches])
    return inspection


def require_equal(subject: str, found: Fingerprint, expected: Fingerprint) -> None:
    """Raise `Different` if a table does not have the expected rows."""
    if found != expected:
        raise Different(
            f"{subject}: the rows are not those that the changes lead to; {found}, expected {expected}"
        )


def table_name(workload: Workload) -> str:
    """Return the name of the workload's table."""
    return workload.name.replace("-", "_")
