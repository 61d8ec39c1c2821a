"""Waits for the end of a replay, and shows how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from icemirror.cli.console import out, print_error, print_hint, print_json
from icemirror.cli.trouble import with_table
from icemirror.errors import Exit, exit_of
from icemirror.state.attendance import why_untaken
from icemirror.state.policy import Policy
from icemirror.state.reads import EVERYTHING, NO_SLOT, Reads
from icemirror.state.replay import Replay, ReplayEnd, ReplayProgress
from icemirror.state.rows import TableRow
from icemirror.state.store import Store

_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 30.0  # without a step forward, before asking whether anybody is there at all
_AGAIN_SECONDS = 300.0  # and then again
_LINE_SECONDS = 10.0  # between two lines of progress, where there is no terminal for a bar


def await_end(
    store: Store,
    table: str,
    asked: Replay,
    console: Console,
    *,
    as_json: bool,
    policy: Policy,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> Exit:
    """The exit code: 0 if it was done, 3 if a person is needed, 4 if it was not done for a passing reason.

    Where nobody is at it, it says so and waits on: whoever is started then takes it up, and the request is not lost by
    Ctrl-C.
    """
    reads = Reads(frozenset({table}), NO_SLOT)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    waited, ask_at, said_at = 0.0, _PATIENCE_SECONDS, -_LINE_SECONDS
    before: ReplayProgress | None = None
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(table, total=None)
        while True:
            row = store.load(reads).tables.get(table) or TableRow(table)
            if row.replay is None or row.replay.id != asked.id:
                break
            if row.paused:
                print_error(f"{table}: is paused, and keeps the replay until it is taken up again")
                print_hint(f"icemirror resume --table {table}")
                return _tell(table, asked, "paused", row.replay.progress, Exit.NEEDS_PERSON, as_json=as_json)
            done = row.replay.progress
            progress.update(
                task,
                description=f"{table}: {_doing(row)}",
                completed=done.events if done else 0,
                total=(done.of_events if done else None) or None,
            )
            if not console.is_terminal and waited >= said_at + _LINE_SECONDS:
                said_at = waited
                print_hint(f"{table}: {_doing(row)}{_so_far(done)}")
            if done != before:
                before, ask_at = done, waited + _PATIENCE_SECONDS
            elif waited >= ask_at:
                why = why_untaken(store.load(EVERYTHING), table, clock(), policy)
                ask_at = waited + (_AGAIN_SECONDS if why else _PATIENCE_SECONDS)
                if why:
                    print_hint(f"{table}: {why}. Waiting on; Ctrl-C leaves the request where it is")
            sleep(_POLL_SECONDS)
            waited += _POLL_SECONDS
    return _conclude(table, asked, row.last_replay, as_json=as_json)


def _doing(row: TableRow) -> str:
    if row.owner is not None:
        return "rebuilding" if row.replay and row.replay.full else "replaying"
    return "waits to be tried again" if row.failures else "waits for a worker"


def _so_far(progress: ReplayProgress | None) -> str:
    return f", {progress.events:,} of {progress.of_events:,} events" if progress else ""


def _conclude(table: str, asked: Replay, end: ReplayEnd | None, *, as_json: bool) -> Exit:
    if end is None or end.id != asked.id:
        print_error(f"{table}: the state does not know of this replay any more; ask for it again")
        return _tell(table, asked, "lost", None, Exit.RETRY_LATER, as_json=as_json)
    code = Exit.DONE if end.outcome == "done" else Exit.RETRY_LATER
    if end.error is not None:
        code = exit_of(end.error.kind)
        print_error(with_table(table, end.error.message))
    return _tell(table, asked, end.outcome, end.progress, code, as_json=as_json)


def _tell(
    table: str, asked: Replay, outcome: str, progress: ReplayProgress | None, code: Exit, *, as_json: bool
) -> Exit:
    events, changed = (progress.events, progress.changed_rows) if progress else (0, 0)
    if as_json:
        figures = {"events": events, "changed_rows": changed}
        print_json({"table": table, "replay_id": asked.id, "outcome": outcome, **figures})
    elif asked.full and outcome == "done":
        out.print(f"{table}: rebuilt from {events:,} events; it has {changed:,} rows")
    else:
        out.print(f"{table}: {outcome}; {events:,} events, {changed:,} rows changed")
    return code
