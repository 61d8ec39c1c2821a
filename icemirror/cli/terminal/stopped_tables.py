"""Explains on stderr which tables have stopped, and what to do."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from icemirror.cli.terminal.console import print_error, print_hint
from icemirror.cli.terminal.text import prefix_table

if TYPE_CHECKING:
    from icemirror.protocol.rows import Rows
    from trigger.dispatch.dispatcher import Dispatcher
    from trigger.status.table_progress import TableProgress


def explain_stopped_tables(
    dispatcher: Dispatcher, rows: Rows, progress_by_table: Mapping[str, TableProgress], config: str | None
) -> None:
    """Print the error of every table that does not proceed, and the command that resumes it.

    `config`: the configuration file that the user named.
    """
    from trigger.status.table_progress import TableProgress
    from trigger.status.table_status import table_statuses

    config_argument = "" if config is None else f" -c {shlex.quote(config)}"
    for status in table_statuses(
        dispatcher.registry.tables, rows, time.time(), slots=dispatcher.policy.slots
    ):
        name = status["table"]
        if progress_by_table.get(name) in (None, TableProgress.CURRENT, TableProgress.BEHIND):
            continue
        message = status["error"]["message"] if status["error"] else ""
        if progress_by_table[name] is TableProgress.PAUSED:
            print_hint(f"{name}: paused{f'; before that: {message}' if message else ''}")
        else:
            print_error(prefix_table(name, message or "its catalog has not responded yet"))
        resume = f"icemirror resume{config_argument} --table {shlex.quote(name)}"
        if status["state"] in ("blocked", "quarantined"):
            print_hint(f"after fixing it: {resume}")
        elif status["state"] == "paused":
            print_hint(f"to continue: {resume}")
    if dispatcher.registry.problem is not None:
        print_error(f"discover: {dispatcher.registry.problem}")
    for problem in dispatcher.registry.unmatched_messages:
        print_hint(f"discover: {problem}")
