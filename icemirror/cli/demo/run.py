"""The demo from start to end: copy, watch, stream changes, wait for the mirrors, verify."""

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

from icemirror.catalogs.catalog_properties import DEFAULT_CATALOG
from icemirror.cli.demo import conclusion
from icemirror.cli.demo.oracle.journal import Journal
from icemirror.cli.demo.progress import MirrorProgress, measure_progress, read_latest_merge
from icemirror.cli.demo.screen import Screen
from icemirror.cli.demo.watch_process import WatchProcess, stop_old_processes
from icemirror.cli.demo.workspace import NAMESPACE, DemoMarker, Workspace, prepare_workspace, read_marker
from icemirror.cli.demo.writer import TableWriter, copy_tables, open_writers, stream_changes
from icemirror.cli.terminal.console import err, out, print_hint
from icemirror.cli.terminal.progress import open_progress
from icemirror.errors import Exit, Transient

_POLL_SECONDS = 0.5
_SPARK_START_SECONDS = 60.0  # the longest wait for the first merge
_LAST_MERGE_SECONDS = 120.0
_LEFTOVER_SECONDS = 10.0


def run_demo(directory: Path, *, keep: bool, seconds: float, new_marker: DemoMarker) -> Exit:
    """Run the demo; no process stays running in any case."""
    with _handle_sigterm_as_interrupt():
        if read_marker(directory) is not None:
            stop_old_processes(directory, _LEFTOVER_SECONDS)
        elif keep:
            print_hint(f"no demo to continue, starting a new one: {directory}")
        workspace = prepare_workspace(directory, keep=keep, new_marker=new_marker)
        journal = Journal.open(workspace.journal)
        try:
            writers = open_writers(_catalog(workspace), journal, workspace.marker)
            _copy(writers, workspace)
            with WatchProcess(workspace) as watch:
                _show_until_merged(workspace, writers, seconds, watch)
            return _print_conclusion(workspace, journal)
        finally:
            journal.close()


def _catalog(workspace: Workspace) -> Catalog:
    return load_catalog(DEFAULT_CATALOG, **workspace.catalog_properties)


def _copy(writers: list[TableWriter], workspace: Workspace) -> None:
    total = workspace.marker.rows * len(writers)
    began = time.monotonic()
    with open_progress() as bar:
        task = bar.add_task("initial copy of the shop", total=total)
        copy_tables(writers, lambda _writer, events: bar.advance(task, events))
    committed = sum(writer.commits[-1].events_so_far for writer in writers)
    seconds = time.monotonic() - began
    summary = f"{committed:,} events in {len(writers)} tables ({seconds:.1f} s)"
    err.print(f"changelogs in {workspace.root}: {summary}", markup=False, soft_wrap=True)


def _show_until_merged(
    workspace: Workspace, writers: list[TableWriter], seconds: float, watch: WatchProcess
) -> None:
    """Show the mirrors' progress, until all changes are merged. Changes end `seconds` after the first merge."""
    catalog = _catalog(workspace)

    def measure() -> list[MirrorProgress]:
        return [
            measure_progress(
                writer.name, tuple(writer.commits), read_latest_merge(catalog, writer.name), time.time()
            )
            for writer in writers
        ]

    with Screen(err) as screen, _in_background(lambda stop: stream_changes(writers, stop)) as (stream, stop):
        merges_before = sum(progress.merges for progress in measure())
        ends, merged = time.monotonic() + _SPARK_START_SECONDS + seconds, False
        while True:
            if time.monotonic() >= ends:
                stop.set()
            if ended := stream.done():
                stream.result()  # raises what the writer raised
            tables = measure()  # after the stream's end, so that its last commit is included
            if not merged and sum(progress.merges for progress in tables) > merges_before:
                merged, ends = True, min(ends, time.monotonic() + seconds)
            behind_tables = [progress.table for progress in tables if not progress.is_current]
            finished = ended and not behind_tables
            screen.show(tables, _phase(ended, merged, ends - time.monotonic(), watch), final=finished)
            if finished:
                return
            watch.check()
            if time.monotonic() - ends > _LAST_MERGE_SECONDS:
                late = f"not merged {_LAST_MERGE_SECONDS:.0f} s after the last change"
                raise Transient(f"{', '.join(behind_tables)}: {late}\n{watch.tail()}")
            time.sleep(_POLL_SECONDS)


def _phase(ended: bool, merged: bool, remaining_seconds: float, watch: WatchProcess) -> str:
    job = watch.describe_job(merged=merged)
    if ended:
        return f"no more changes; {job}"
    return f"changes continue{f' for {max(0.0, remaining_seconds):.0f} s' if merged else ''}; {job}"


def _print_conclusion(workspace: Workspace, journal: Journal) -> Exit:
    """Print the verification, a query and commands to try; return the exit code."""
    catalog = _catalog(workspace)
    findings = conclusion.verify_mirrors(catalog, journal)
    equal = True
    out.print()
    while (finding := _next_finding(findings)) is not None:
        equal = equal and finding.verdict.equal
        label = "[green]mirror = oracle[/]" if finding.verdict.equal else "[bold red]mirror ≠ oracle[/]"
        out.print(f"{label}  {NAMESPACE}.{finding.table}, {finding.description}: ", end="")
        out.print(str(finding.verdict), markup=False, soft_wrap=True)
    out.print()
    query, result = conclusion.query_products(catalog)
    out.print(query, style="dim", markup=False, soft_wrap=True)
    out.print(conclusion.render_result(result))
    out.print("\n[bold]Try next[/]")
    for command, description in conclusion.next_commands(workspace):
        out.print(f"  {escape(command)}\n      [dim]{description}[/]", soft_wrap=True)
    return Exit.DONE if equal else Exit.DIFFERENCE


def _next_finding(findings: Iterator[conclusion.MirrorFinding]) -> conclusion.MirrorFinding | None:
    with err.status("the oracles replay the journal and the changelog files"):
        return next(findings, None)


@contextmanager
def _in_background(
    work: Callable[[threading.Event], None],
) -> Iterator[tuple[Future[None], threading.Event]]:
    """Run the work in a thread; the event stops it, at the latest when the context ends."""
    stop = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="shop") as pool:
        try:
            yield pool.submit(work, stop), stop
        finally:
            stop.set()


@contextmanager
def _handle_sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C, which also ends the child processes."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    old_handlers = {
        signal_number: signal.signal(signal_number, interrupt)
        for signal_number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for signal_number, handler in old_handlers.items():
            signal.signal(signal_number, handler)
