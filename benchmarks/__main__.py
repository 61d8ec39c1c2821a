"""The command line: `python -m benchmarks`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markdown import Markdown

from benchmarks.bench import Bench, Limits
from benchmarks.dataset import delete_data
from benchmarks.machine import memory_bytes
from benchmarks.parts.catalogue import PARTS
from benchmarks.parts.scale import FULL, TOY
from benchmarks.progress import Progress
from benchmarks.publish import publish
from benchmarks.report import write_report
from benchmarks.result import Absent, Run
from benchmarks.runner import choose_cells, run_cells
from benchmarks.store import Store
from benchmarks.systems.catalogue import SYSTEMS
from tests.provision.cache import cache_directory

_CORES = 2
_MAX_DRIVER_GIGABYTES = 8
_STEP_TIMEOUT_SECONDS = 900.0
_FOLDER = click.Path(path_type=Path, file_okay=False)
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def main() -> None:
    """Measure icemirror and its peers on this machine, and check that all of them end with the same rows."""


@main.command()
@click.argument("parts", nargs=-1, type=click.Choice(list(PARTS)))
@click.option("--system", "systems", multiple=True, type=click.Choice(list(SYSTEMS)), help="May be repeated.")
@click.option("--toy", is_flag=True, help="Tiny tables: test the scripts, not the speed.")
@click.option("--results", type=_FOLDER, help="Folder for the figures. Default: in the user's cache.")
@click.option(
    "--driver-memory",
    help="Memory of each system's Spark driver. Default: a third of the machine's, at most 8g.",
)
def run(
    parts: tuple[str, ...],
    systems: tuple[str, ...],
    toy: bool,
    results: Path | None,
    driver_memory: str | None,
) -> None:
    """Measure PARTS (all by default) and print the report.

    Without PARTS and systems, an interrupted run is resumed; named parts are measured again. Progress goes to stderr,
    the report as Markdown to stdout.
    """
    err = Console(stderr=True)
    store = Store(results or _results(toy=toy))
    cells = choose_cells(parts, systems)
    if not parts and not systems and not all(map(store.has, cells)):
        cells = [cell for cell in cells if not store.has(cell)]
    else:
        for cell in cells:
            store.delete(cell)
    scale = TOY if toy else FULL
    scratch = cache_directory() / "benchmarks" / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(scratch).free < scale.free_bytes:
        raise click.ClickException(f"{scratch}: {scale.free_bytes >> 30} GiB must be free")
    limits = Limits(_CORES, driver_memory or _driver_memory(), _STEP_TIMEOUT_SECONDS)
    with Progress(err, len(cells)) as progress, Bench(limits, scratch, progress, keep=toy) as bench:
        done = run_cells(cells, scale, bench, store)
    _print(store.read(choose_cells((), tuple(SYSTEMS))))
    if any(isinstance(cell.outcome, Absent) and cell.outcome.wrong for cell in done):
        sys.exit(1)


@main.command()
@click.option("--results", type=_FOLDER, help="Folder with the figures. Default: in the user's cache.")
@click.option("--json", "figures", type=_FILE, help="Use the figures of this file instead.")
@click.option(
    "--keep", is_flag=True, help="Keep the published figures of parts that this run did not measure."
)
@click.option("--out", type=_FOLDER, default=Path("docs/explanation"), show_default=True)
def write(results: Path | None, figures: Path | None, keep: bool, out: Path) -> None:
    """Write performance.md, its charts and performance.json from the figures."""
    measured = (
        _read(figures)
        if figures
        else Store(results or _results(toy=False)).read(choose_cells((), tuple(SYSTEMS)))
    )
    published = out / "performance.json"
    if keep and published.exists():
        measured = measured.over(_read(published), choose_cells((), tuple(SYSTEMS)))
    if not measured.cells:
        raise click.ClickException("no figures yet: run `python -m benchmarks run`")
    for path in publish(measured, out):
        click.echo(path, err=True)


@main.command()
def parts() -> None:
    """List the parts with their systems and estimated minutes on two idle cores."""
    for part in PARTS.values():
        click.echo(f"{part.name:<10}{part.minutes:>4.0f} min  {part.about} ({', '.join(part.systems)})")
    click.echo(
        f"{'total':<10}{sum(part.minutes for part in PARTS.values()):>4.0f} min, plus about 5 for the data (estimates)"
    )


@main.command()
def clean() -> None:
    """Delete the generated data; the figures are kept."""
    delete_data()


def _print(measured: Run) -> None:
    stdout = Console()
    report = write_report(measured)
    stdout.print(Markdown(report)) if stdout.is_terminal else click.echo(report)


def _read(figures: Path) -> Run:
    return Run.model_validate_json(figures.read_text(encoding="utf-8"))


def _results(*, toy: bool) -> Path:
    return cache_directory() / "benchmarks" / "results" / ("toy" if toy else "full")


def _driver_memory() -> str:
    gigabytes = memory_bytes() // (1 << 30)
    return f"{max(1, min(_MAX_DRIVER_GIGABYTES, gigabytes // 3))}g"


if __name__ == "__main__":
    main()
