"""What is wrong with tables, and what helps, for whoever reads stderr."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from icemirror.cli.console import print_error, print_hint

if TYPE_CHECKING:
    from icemirror.state.rows import Rows
    from trigger.fleet import Fleet
    from trigger.idle import Standing


def with_table(table: str, message: str) -> str:
    """The message with the table's name before it, unless it begins with that already."""
    return message if message.startswith(f"{table}: ") else f"{table}: {message}"


def explain_trouble(fleet: Fleet, rows: Rows, found: Mapping[str, Standing], config: str | None) -> None:
    """Says of every table that does not get on what is wrong with it; `config` is the file that was asked for."""
    from trigger.idle import Standing
    from trigger.status import fleet_status

    file = "" if config is None else f" -c {shlex.quote(config)}"
    for one in fleet_status(fleet.registry.tables, rows, time.time(), slots=fleet.policy.slots):
        name = one["table"]
        if found.get(name) in (None, Standing.CURRENT, Standing.BEHIND):
            continue
        told = one["error"]["message"] if one["error"] else ""
        if found[name] is Standing.PAUSED:
            print_hint(f"{name}: paused{f'; before that: {told}' if told else ''}")
        else:
            print_error(with_table(name, told or "its catalog has not answered yet"))
        resume = f"icemirror resume{file} --table {shlex.quote(name)}"
        if one["state"] == "quarantined":
            print_hint(f"when that is mended: {resume}")
        elif one["state"] == "paused":
            print_hint(f"to go on with it: {resume}")
    if fleet.registry.problem is not None:
        print_error(f"discover: {fleet.registry.problem}")
    for problem in fleet.registry.unmatched:
        print_hint(f"discover: {problem}")
