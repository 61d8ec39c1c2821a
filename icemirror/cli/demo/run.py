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
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from icemirror.catalog_name import DEFAULT_CATALOG
from icemirror.cli.console import err, out, print_hint
from icemirror.cli.demo import closing
from icemirror.cli.demo.jobs import end_leftovers
from icemirror.cli.demo.ledger import TableProgress, measure_progress
from icemirror.cli.demo.mirror_state import read_mirror_state
from icemirror.cli.demo.oracle.journal import Journal
from icemirror.cli.demo.screen import Screen
from icemirror.cli.demo.watching import Watch
from icemirror.cli.demo.workspace import NAMESPACE, Marker, Workspace, prepare_workspace, read_marker
from icemirror.cli.demo.writer import Lane, copy_tables, open_lanes, stream_changes
from icemirror.errors import Exit, Transient

_LOOK_SECONDS = 0.5
_SPARK_START_SECONDS = 60.0  # so long the changes wait for the first merge
_CATCH_UP_SECONDS = 120.0
_LEFTOVER_SECONDS = 10.0


def run_demo(directory: Path, *, keep: bool, seconds: float, wanted: Marker) -> Exit:
    """Runs it; whatever happens, nothing stays running."""
    with _terminated_like_interrupted():
        if read_marker(directory) is not None:
            end_leftovers(directory, _LEFTOVER_SECONDS)
        elif keep:
            print_hint(f"there is no demo in {directory} to continue: a new one begins")
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
    made = f"{committed:,} events in {len(lanes)} tables ({took:.1f} s)"
    err.print(f"changelogs in {workspace.root}: {made}", markup=False, soft_wrap=True)


def _follow(workspace: Workspace, lanes: list[Lane], seconds: float, watch: Watch) -> None:
    """Shows how the mirrors follow the changes, which end so long after the first merge."""
    catalog = _catalog(workspace)

    def look() -> list[TableProgress]:
        return [
            measure_progress(
                lane.name, tuple(lane.ledger), read_mirror_state(catalog, lane.name), time.time()
            )
            for lane in lanes
        ]

    with Screen(err) as screen, _in_background(lambda stop: stream_changes(lanes, stop)) as (stream, stop):
        merges_before = sum(progress.merges for progress in look())
        ends, merged = time.monotonic() + _SPARK_START_SECONDS + seconds, False
        while True:
            if time.monotonic() >= ends:
                stop.set()
            if ended := stream.done():
                stream.result()  # raises what the writer raised
            tables = look()  # after the last change was seen to be committed: it cannot be missed
            if not merged and sum(progress.merges for progress in tables) > merges_before:
                merged, ends = True, min(ends, time.monotonic() + seconds)
            behind = [progress.table for progress in tables if not progress.caught_up]
            finished = ended and not behind
            screen.show(tables, _phase(ended, merged, ends - time.monotonic(), watch), final=finished)
            if finished:
                return
            watch.check()
            if time.monotonic() - ends > _CATCH_UP_SECONDS:
                late = f"not caught up {_CATCH_UP_SECONDS:.0f} s after the last change"
                raise Transient(f"{', '.join(behind)}: {late}\n{watch.tail()}")
            time.sleep(_LOOK_SECONDS)


def _phase(ended: bool, merged: bool, left: float, watch: Watch) -> str:
    job = watch.describe_job(merged=merged)
    if ended:
        return f"no more changes; {job}"
    return f"changes keep coming{f' for {max(0.0, left):.0f} s' if merged else ''}; {job}"


def _conclude(workspace: Workspace, journal: Journal) -> Exit:
    """The verdict, a query and what to try; the exit code tells the verdict."""
    catalog = _catalog(workspace)
    findings = closing.judge_mirrors(catalog, journal)
    equal = True
    out.print()
    while (finding := _next_finding(findings)) is not None:
        equal = equal and finding.verdict.equal
        mark = "[green]mirror = oracle[/]" if finding.verdict.equal else "[bold red]mirror ≠ oracle[/]"
        out.print(f"{mark}  {NAMESPACE}.{finding.table}, {finding.what}: ", end="")
        out.print(str(finding.verdict), markup=False, soft_wrap=True)
    out.print()
    query, result = closing.query_products(catalog)
    out.print(query, style="dim", markup=False, soft_wrap=True)
    out.print(closing.render_result(result))
    out.print("\n[bold]Try next[/]")
    for command, does in closing.what_next(workspace):
        out.print(f"  {escape(command)}\n      [dim]{does}[/]", soft_wrap=True)
    return Exit.DONE if equal else Exit.DIFFERENCE


def _next_finding(findings: Iterator[closing.Finding]) -> closing.Finding | None:
    with err.status("the oracles replay the journal and the changelog files"):
        return next(findings, None)


@contextmanager
def _in_background(
    work: Callable[[threading.Event], None],
) -> Iterator[tuple[Future[None], threading.Event]]:
    """Runs the work in a thread, which is told to stop by the event, at the latest at the end."""
    stop = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="shop") as pool:
        try:
            yield pool.submit(work, stop), stop
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
