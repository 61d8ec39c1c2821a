"""The run itself: load, then round by round every workload on every system, then a look at what came of it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.dataset import Dataset, make_dataset
from benchmarks.fingerprint import Fingerprint
from benchmarks.messages import Apply, Inspect, Load, Start, Timed
from benchmarks.process import Process
from benchmarks.progress import Progress
from benchmarks.result import SystemRun, WorkloadRun
from benchmarks.workloads.workload import Workload

_ABANDONED_SECONDS = 24 * 3600


class Different(Exception):
    """A system's table is not what the changes must lead to: its figures are worth nothing."""


@dataclass(frozen=True)
class Conditions:
    """What is the same for every system."""

    cores: int
    driver_memory: str
    timeout_seconds: float
    scratch: Path


def count_steps(workloads: Sequence[Workload], systems: Sequence[str]) -> int:
    """How many steps a run reports: data once, then start, loads, batches and looks for each system."""
    groups = {workload.group for workload in workloads}
    per_system = len(groups) + sum(2 + workload.rounds for workload in workloads)
    return len(workloads) + len(systems) * per_system


def measure(
    workloads: Sequence[Workload], systems: Sequence[str], conditions: Conditions, progress: Progress
) -> Iterator[tuple[tuple[WorkloadRun, ...], dict[str, str]]]:
    """The results group by group, with the versions that the systems report."""
    for name, group in groupby(workloads, key=lambda workload: workload.group):
        with _workspace(conditions.scratch, name) as workspace:
            yield _measure_group(tuple(group), systems, conditions, workspace, progress)


@contextmanager
def _workspace(scratch: Path, group: str) -> Iterator[Path]:
    scratch.mkdir(parents=True, exist_ok=True)
    for left in scratch.glob("bench-*"):  # a run that was killed could not clean up
        if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(mkdtemp(prefix=f"bench-{group}-", dir=scratch))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure_group(
    workloads: Sequence[Workload],
    systems: Sequence[str],
    conditions: Conditions,
    workspace: Path,
    progress: Progress,
) -> tuple[tuple[WorkloadRun, ...], dict[str, str]]:
    datasets: dict[str, Dataset] = {}
    for workload in workloads:
        progress.step(f"data: {workload.title}")
        datasets[workload.name] = make_dataset(workload)
    with ExitStack() as stack:
        processes: dict[str, Process] = {}
        versions: dict[str, str] = {}
        for system in systems:
            progress.step(f"{system}: start")
            log = workspace / f"{system}.log"
            process = stack.enter_context(Process(system, log, conditions.timeout_seconds))
            versions |= process.start(_start(workloads, conditions, workspace / system)).versions
            processes[system] = process
        loads = _load(workloads, datasets, processes, progress)
        batches = _apply(workloads, datasets, processes, progress)
        runs = [
            _inspect(workload, datasets[workload.name], processes, loads, batches, progress)
            for workload in workloads
        ]
    return tuple(runs), versions


def _start(workloads: Sequence[Workload], conditions: Conditions, workspace: Path) -> Start:
    workspace.mkdir()
    return Start(
        workspace=workspace,
        cores=conditions.cores,
        driver_memory=conditions.driver_memory,
        tables=tuple(map(_table, workloads)),
    )


def _load(
    workloads: Sequence[Workload],
    datasets: Mapping[str, Dataset],
    processes: Mapping[str, Process],
    progress: Progress,
) -> dict[tuple[str, str], Timed]:
    loads: dict[tuple[str, str], Timed] = {}
    for workload in workloads:
        for system, process in processes.items():
            progress.step(f"{system}: load {workload.rows:,} rows")
            request = Load(table=_table(workload), base=datasets[workload.name].base)
            loads[workload.name, system] = process.load(request)
            progress.note(loads[workload.name, system].seconds)
    return loads


def _apply(
    workloads: Sequence[Workload],
    datasets: Mapping[str, Dataset],
    processes: Mapping[str, Process],
    progress: Progress,
) -> dict[tuple[str, str], list[Timed]]:
    """Workloads and systems take turns, and who begins changes each round: noise hits all of them alike."""
    batches: dict[tuple[str, str], list[Timed]] = {
        (workload.name, system): [] for workload in workloads for system in processes
    }
    for number in range(max(workload.rounds for workload in workloads)):
        turn = list(processes.items())
        for workload in workloads:
            if number >= workload.rounds:
                continue
            for system, process in turn if number % 2 == 0 else turn[::-1]:
                progress.step(f"{system}: {workload.title}, batch {number + 1} of {workload.rounds}")
                request = Apply(table=_table(workload), batch=datasets[workload.name].batches[number])
                batches[workload.name, system].append(process.apply(request))
                progress.note(batches[workload.name, system][-1].seconds)
    return batches


def _inspect(
    workload: Workload,
    dataset: Dataset,
    processes: Mapping[str, Process],
    loads: Mapping[tuple[str, str], Timed],
    batches: Mapping[tuple[str, str], Sequence[Timed]],
    progress: Progress,
) -> WorkloadRun:
    runs: dict[str, SystemRun] = {}
    for system, process in processes.items():
        progress.step(f"{system}: check and scan {workload.name}")
        inspection = process.inspect(Inspect(table=_table(workload)))
        require_equal(f"{system}, {workload.title}", inspection.fingerprint, dataset.expected)
        key = (workload.name, system)
        runs[system] = SystemRun(load=loads[key], batches=tuple(batches[key]), inspection=inspection)
    return WorkloadRun(
        name=workload.name,
        title=workload.title,
        rows=workload.rows,
        events=workload.events,
        base_bytes=dataset.base_bytes,
        systems=runs,
    )


def require_equal(what: str, found: Fingerprint, expected: Fingerprint) -> None:
    """Raises `Different` where a table holds other rows than it must."""
    if found != expected:
        raise Different(
            f"{what}: the rows are not those that the changes lead to; {found}, expected {expected}"
        )


def _table(workload: Workload) -> str:
    return workload.name.replace("-", "_")
