"""Waits for the end of a replay and shows its progress."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable

from rich.console import Console

from icemirror.cli.terminal.console import out, print_error, print_hint, print_json
from icemirror.cli.terminal.progress import open_progress
from icemirror.cli.terminal.text import format_count, prefix_table
from icemirror.errors import Exit, exit_for_kind
from icemirror.protocol.policy import Policy
from icemirror.protocol.replay import Replay, ReplayEnd, ReplayProgress
from icemirror.protocol.row_selection import ALL_ROWS, NO_SLOTS, RowSelection
from icemirror.protocol.rows import TableRow
from icemirror.protocol.waiting_reasons import waiting_reason
from icemirror.stores.store import Store

_POLL_SECONDS = 0.5
_CHECK_AFTER_SECONDS = 30.0  # without progress, before checking for a worker
_CHECK_EVERY_SECONDS = 300.0  # between two such checks
_PRINT_EVERY_SECONDS = 10.0  # between two lines of progress without a terminal


def wait_for_replay(
    store: Store,
    table: str,
    request: Replay,
    console: Console,
    *,
    as_json: bool,
    policy: Policy,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> Exit:
    """Wait for a replay; return 0 if it was done, 3 if it requires action, 4 if it failed temporarily.

    If no worker serves it, print that and keep waiting: the next worker starts it. Ctrl-C does not cancel the request.
    """
    selection = RowSelection(frozenset({table}), NO_SLOTS)
    waited, check_at, printed_at = 0.0, _CHECK_AFTER_SECONDS, -_PRINT_EVERY_SECONDS
    last_progress: ReplayProgress | None = None
    with open_progress(console) as progress:
        task = progress.add_task(table, total=None)
        while True:
            row = store.load(selection).tables.get(table) or TableRow(table)
            if row.replay is None or row.replay.id != request.id:
                break
            if row.paused:
                resume = f"icemirror resume --table {shlex.quote(table)}"
                print_error(f"{table} is paused; the replay is stored and starts after: {resume}")
                if as_json:
                    _print_outcome(table, request, "paused", row.replay.progress, as_json=True)
                return Exit.BLOCKED
            done = row.replay.progress
            progress.update(
                task,
                description=f"{table}: {_describe_state(row)}",
                completed=done.events if done else 0,
                total=(done.of_events if done else None) or None,
            )
            if not console.is_terminal and waited >= printed_at + _PRINT_EVERY_SECONDS:
                printed_at = waited
                print_hint(f"{table}: {_describe_state(row)}{_describe_progress(done)}")
            if done != last_progress:
                last_progress, check_at = done, waited + _CHECK_AFTER_SECONDS
            elif waited >= check_at:
                reason = waiting_reason(store.load(ALL_ROWS), table, clock(), policy)
                check_at = waited + (_CHECK_EVERY_SECONDS if reason else _CHECK_AFTER_SECONDS)
                if reason:
                    print_hint(f"{table}: {reason}. Still waiting; Ctrl-C keeps the request")
            sleep(_POLL_SECONDS)
            waited += _POLL_SECONDS
    return _report_end(table, request, row.last_replay, as_json=as_json)


def _describe_state(row: TableRow) -> str:
    if row.owner is not None:
        return "rebuilding" if row.replay and row.replay.full else "replaying"
    return "waiting for a retry" if row.failures else "waiting for a worker"


def _describe_progress(progress: ReplayProgress | None) -> str:
    return f", {progress.events:,} of {progress.of_events:,} events" if progress else ""


def _report_end(table: str, request: Replay, end: ReplayEnd | None, *, as_json: bool) -> Exit:
    if end is None or end.id != request.id:
        print_error(f"{table}: the state no longer contains this replay; request it again")
        _print_outcome(table, request, "lost", None, as_json=as_json)
        return Exit.RETRY_LATER
    code = Exit.DONE if end.outcome == "done" else Exit.RETRY_LATER
    if end.error is not None:
        code = exit_for_kind(end.error.kind)
        print_error(prefix_table(table, end.error.message))
    _print_outcome(table, request, end.outcome, end.progress, as_json=as_json)
    return code


def _print_outcome(
    table: str, request: Replay, outcome: str, progress: ReplayProgress | None, *, as_json: bool
) -> None:
    events, changed = (progress.events, progress.changed_rows) if progress else (0, 0)
    if as_json:
        figures = {"events": events, "changed_rows": changed}
        print_json({"table": table, "replay_id": request.id, "outcome": outcome, **figures})
    elif request.full and outcome == "done":
        out.print(
            f"{table}: rebuilt from {format_count(events, 'event')}; it has {format_count(changed, 'row')}"
        )
    else:
        out.print(
            f"{table}: {outcome}; {format_count(events, 'event')}, {format_count(changed, 'row')} changed"
        )
