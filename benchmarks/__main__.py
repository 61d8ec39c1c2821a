"""The command line: `python -m benchmarks`."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.markdown import Markdown

from benchmarks.machine import describe_machine, memory_bytes
from benchmarks.measure import Conditions, Different, count_steps, measure
from benchmarks.process import SystemFailed
from benchmarks.progress import Progress
from benchmarks.publish import publish
from benchmarks.report import write_report
from benchmarks.result import Run, WorkloadRun
from benchmarks.systems.catalogue import SYSTEMS, Unavailable
from benchmarks.workloads.catalogue import FULL_ROWS, NAMES, QUICK_ROUNDS, QUICK_ROWS, choose_workloads
from tests.cache import cache_directory

_CORES = 2
_MOST_DRIVER_GIGABYTES = 8
_STEP_TIMEOUT_SECONDS = 1800.0
_FOLDER = click.Path(path_type=Path, file_okay=False)
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.option("--quick", is_flag=True, help="Small tables, two rounds: does it work, not how fast is it.")
@click.option("--only", multiple=True, type=click.Choice([*SYSTEMS, *NAMES]), help="May be repeated.")
@click.option("--rows", type=click.IntRange(min=20_000), help="Of the largest table. Default: 10 million.")
@click.option("--rounds", type=click.IntRange(min=1), help="Batches each. Default: 8 small, 3 large.")
@click.option("--out", type=_FOLDER, help="Publish: performance.md, its pictures and figures in this folder.")
@click.option("--json", "json_path", type=_FILE, help="File for the figures. Default: in the user's cache.")
@click.option("--render", type=_FILE, help="Measure nothing, show or publish the figures in this file.")
@click.option("--driver-memory", help="For each system's Spark. Default: a third of all, at most 8g.")
def main(
    quick: bool,
    only: tuple[str, ...],
    rows: int | None,
    rounds: int | None,
    out: Path | None,
    json_path: Path | None,
    render: Path | None,
    driver_memory: str | None,
) -> None:
    """Measures icemirror beside its peers on this machine, and checks that all of them end with the same rows.

    Progress goes to stderr, the result as Markdown to stdout. A full run takes about a quarter of an hour.
    """
    err = Console(stderr=True)
    if render:
        run = Run.model_validate_json(render.read_text(encoding="utf-8"))
    else:
        cache = cache_directory() / "benchmarks"
        memory = driver_memory or _driver_memory()
        conditions = Conditions(_CORES, memory, _STEP_TIMEOUT_SECONDS, cache / "scratch")
        sizes = rows or (QUICK_ROWS if quick else FULL_ROWS), rounds or (QUICK_ROUNDS if quick else None)
        stamp = datetime.now(UTC)
        target = json_path or cache / "results" / f"{stamp:%Y%m%dT%H%M%SZ}.json"
        try:
            run = _run(err, only, sizes, conditions, stamp, target)
        except (SystemFailed, Different, Unavailable) as error:
            err.print(str(error), style="red", markup=False, highlight=False)
            sys.exit(1)
        err.print(f"figures: {target}", highlight=False)
    if out:
        for path in publish(run, out):
            err.print(f"written: {path}", highlight=False)
    stdout = Console()
    report = write_report(run)
    stdout.print(Markdown(report)) if stdout.is_terminal else click.echo(report)


def _run(
    err: Console,
    only: tuple[str, ...],
    sizes: tuple[int, int | None],
    conditions: Conditions,
    began_at: datetime,
    target: Path,
) -> Run:
    """Measures, and keeps what is measured so far in a file after each group of workloads."""
    began = time.monotonic()
    workloads = [
        workload
        for workload in choose_workloads(*sizes)
        if workload.name in only or not set(only) & set(NAMES)
    ]
    systems, left_out = _choose_systems(err, only)
    machine = describe_machine({})
    done: tuple[WorkloadRun, ...] = ()
    run: Run | None = None
    target.parent.mkdir(parents=True, exist_ok=True)
    with Progress(err, count_steps(workloads, systems)) as progress:
        for results, versions in measure(workloads, systems, conditions, progress):
            done += results
            run = Run(
                began_at=began_at.isoformat(timespec="minutes"),
                seconds=time.monotonic() - began,
                spark_cores=conditions.cores,
                driver_memory=conditions.driver_memory,
                machine=machine.model_copy(update={"versions": machine.versions | versions}),
                left_out=left_out,
                workloads=done,
            )
            target.write_text(run.model_dump_json(indent=1) + "\n", encoding="utf-8")
    if run is None:
        raise AssertionError("there is always a workload")
    return run


def _choose_systems(err: Console, only: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """The systems that take part; one that cannot is left out, unless it was asked for by name."""
    chosen = [name for name in SYSTEMS if name in only or not set(only) & set(SYSTEMS)]
    left_out: dict[str, str] = {}
    for name in chosen:
        try:
            SYSTEMS[name].prepare()
        except Unavailable as error:
            if name in only:
                raise
            left_out[name] = str(error).splitlines()[0][:200]
            err.print(f"left out: {error}", style="yellow", markup=False)
    return [name for name in chosen if name not in left_out], left_out


def _driver_memory() -> str:
    gigabytes = memory_bytes() // (1 << 30)
    return f"{max(1, min(_MOST_DRIVER_GIGABYTES, gigabytes // 3))}g"


if __name__ == "__main__":
    main()
