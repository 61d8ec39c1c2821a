"""The demo from beginning to end: copy, watch, stream, catch up, judge."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from pyiceberg.catalog import Catalog, load_catalog
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from icemirror.catalog_name import DEFAULT_CATALOG
from icemirror.cli.console import err, out
from icemirror.cli.demo import closing
from icemirror.cli.demo.jobs import end_jobs
from icemirror.cli.demo.ledger import measure_progress
from icemirror.cli.demo.mirror_state import read_mirror_state
from icemirror.cli.demo.oracle.journal import Journal
from icemirror.cli.demo.screen import Screen
from icemirror.cli.demo.watching import Watch
from icemirror.cli.demo.workspace import Marker, Workspace, prepare_workspace, read_marker
from icemirror.cli.demo.writer import Lane, copy_tables, open_lanes, stream_changes
from icemirror.errors import Exit, Transient

_LOOK_SECONDS = 0.5
_CATCH_UP_SECONDS = 120.0
_LEFTOVER_SECONDS = 10.0


def run_demo(directory: Path, *, keep: bool, seconds: float, wanted: Marker) -> Exit:
    """Runs it; whatever happens, nothing stays running."""
    with _terminated_like_interrupted():
        if read_marker(directory) is not None:
            end_jobs(directory, _LEFTOVER_SECONDS)  # of a demo that was killed
        workspace = prepare_workspace(directory, keep=keep, wanted=wanted)
        journal = Journal.open(workspace.journal)
        try:
            lanes = open_lanes(_catalog(workspace), journal, workspace.marker)
            _copy(lanes, workspace)
            with Watch(workspace) as watch:
                _follow(workspace, lanes, seconds, watch)
            return _conclude(workspace, journal)
        finally:
            journal.close()


def _catalog(workspace: Workspace) -> Catalog:
    return load_catalog(DEFAULT_CATALOG, **workspace.catalog_properties)


def _copy(lanes: list[Lane], workspace: Workspace) -> None:
    total = workspace.marker.rows * len(lanes)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    began = time.monotonic()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("initial copy of the shop", total=total)
        copy_tables(lanes, lambda _lane, events: bar.advance(task, events))
    committed = sum(lane.ledger[-1].events_so_far for lane in lanes)
    took = time.monotonic() - began
    err.print(f"changelogs in {workspace.root}: {committed:,} events in {len(lanes)} tables ({took:.1f} s)")


def _follow(workspace: Workspace, lanes: list[Lane], seconds: float, watch: Watch) -> None:
    """Shows how the mirrors follow the changes, until they have all of them."""
    catalog = _catalog(workspace)
    with Screen(err) as screen, _in_background(lambda stop: stream_changes(lanes, seconds, stop)) as stream:
        ends = time.monotonic() + seconds
        while True:
            now = time.time()
            tables = [
                measure_progress(lane.name, tuple(lane.ledger), read_mirror_state(catalog, lane.name), now)
                for lane in lanes
            ]
            streaming = not stream.done()
            if not streaming:
                stream.result()  # raises what the writer raised
                ends = min(ends, time.monotonic())
            merging = any(progress.merges for progress in tables)
            caught_up = not streaming and all(progress.caught_up for progress in tables)
            screen.show(tables, _phase(streaming, merging, ends - time.monotonic(), watch), final=caught_up)
            if caught_up:
                return
            watch.check()
            if time.monotonic() - ends > _CATCH_UP_SECONDS:
                behind = ", ".join(progress.table for progress in tables if not progress.caught_up)
                raise Transient(
                    f"{behind}: not caught up {_CATCH_UP_SECONDS:.0f} s after the last change\n{watch.tail()}"
                )
            time.sleep(_LOOK_SECONDS)


def _phase(streaming: bool, merging: bool, left: float, watch: Watch) -> str:
    coming = f"changes keep coming for {max(0.0, left):.0f} s" if streaming else "no more changes"
    return f"{coming}; {watch.describe_job()}" + ("" if merging else ", first merge to come")


def _conclude(workspace: Workspace, journal: Journal) -> Exit:
    """The verdict, a query and what to try; the exit code tells the verdict."""
    catalog = _catalog(workspace)
    verdicts = []
    out.print()
    with err.status("the oracles replay the journal and the changelog files"):
        for finding in closing.judge_mirrors(catalog, journal):
            verdicts.append(finding.verdict)
            equal = finding.verdict.equal
            mark = "[green]mirror = oracle[/]" if equal else "[bold red]mirror ≠ oracle[/]"
            out.print(f"{mark}  shop.{finding.table}, {finding.what}: ", end="")
            out.print(str(finding.verdict), markup=False, soft_wrap=True)
    out.print()
    query, result = closing.query_products(catalog)
    out.print(query, style="dim", soft_wrap=True)
    out.print(closing.render_result(result))
    out.print("\n[bold]Try next[/]")
    for command, does in closing.what_next(workspace):
        out.print(f"  {command}\n      [dim]{does}[/]", soft_wrap=True)
    return Exit.DONE if all(verdict.equal for verdict in verdicts) else Exit.DIFFERENCE


@contextmanager
def _in_background(work: Callable[[threading.Event], None]) -> Iterator[Future[None]]:
    """Runs the work in a thread, which is told to stop at the end."""
    stop = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="shop") as pool:
        try:
            yield pool.submit(work, stop)
        finally:
            stop.set()


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """A `kill`, or a terminal that is closed, ends the demo as Ctrl-C does: with its children."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
