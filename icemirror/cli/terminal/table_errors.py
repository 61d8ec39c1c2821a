"""Explains on stderr which tables do not proceed, and what to do."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from icemirror.cli.terminal.console import print_error, print_hint
from icemirror.cli.terminal.wording import with_table

if TYPE_CHECKING:
    from icemirror.protocol.rows import Rows
    from trigger.dispatch.fleet import Fleet
    from trigger.status.table_progress import TableProgress


def explain_stopped_tables(
    fleet: Fleet, rows: Rows, found: Mapping[str, TableProgress], config: str | None
) -> None:
    """Print the error of every table that does not proceed, and the command that resumes it.

    `config`: the configuration file that the user named.
    """
    from trigger.status.table_progress import TableProgress
    from trigger.status.table_status import fleet_status

    file = "" if config is None else f" -c {shlex.quote(config)}"
    for status in fleet_status(fleet.registry.tables, rows, time.time(), slots=fleet.policy.slots):
        name = status["table"]
        if found.get(name) in (None, TableProgress.CURRENT, TableProgress.BEHIND):
            continue
        message = status["error"]["message"] if status["error"] else ""
        if found[name] is TableProgress.PAUSED:
            print_hint(f"{name}: paused{f'; before that: {message}' if message else ''}")
        else:
            print_error(with_table(name, message or "its catalog has not responded yet"))
        resume = f"icemirror resume{file} --table {shlex.quote(name)}"
        if status["state"] == "quarantined":
            print_hint(f"after fixing it: {resume}")
        elif status["state"] == "paused":
            print_hint(f"to continue: {resume}")
    if fleet.registry.problem is not None:
        print_error(f"discover: {fleet.registry.problem}")
    for problem in fleet.registry.unmatched:
        print_hint(f"discover: {problem}")
