"""`icemirror sweep`: one round of the trigger, for cron."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import click

from icemirror.cli.terminal.console import config_option, load, out
from icemirror.cli.terminal.examples import examples
from icemirror.cli.terminal.table_errors import explain_stopped_tables
from icemirror.cli.terminal.wording import counted
from icemirror.errors import exit_code, worst_exit

if TYPE_CHECKING:
    from icemirror.protocol.rows import TableRow
    from trigger.status.table_progress import TableProgress


@click.command(epilog=examples("icemirror sweep -c /etc/icemirror.yaml"))
@config_option
def sweep(config: str | None) -> int:
    """Check every changelog once: record new commits, recover failed runs, launch workers.

    Waits for the quiet period of the recorded commits (`trigger.quiet_period`, at most `trigger.max_wait`).
    """
    from icemirror.stores.from_settings import open_store
    from icemirror.telemetry.from_settings import start_logs
    from icemirror.telemetry.metrics import NoMetrics
    from trigger.dispatch.due import dispatch_when_due
    from trigger.status.table_progress import HeadObservation, progress_by_table
    from trigger.wiring import build_fleet

    settings = load(config)
    start_logs(settings)
    with open_store(settings) as store:
        fleet = build_fleet(settings, store, NoMetrics(), os.environ)
        registry = fleet.registry
        with closing(registry):
            registry.refresh()
            fleet.sweep()
            rows = dispatch_when_due(fleet, fleet.policy.max_wait_seconds)
            observations = {
                table.name: HeadObservation(head_seen=table.name in registry.seen)
                for table in registry.tables
            }
    found = progress_by_table(rows, observations, fleet.policy.slots)
    words = Counter(_describe(progress, rows.tables.get(name)) for name, progress in found.items())
    tables = f"{counted(len(found), 'table')}: " + ", ".join(
        f"{n} {word}" for word, n in sorted(words.items())
    )
    launched = f"; {counted(fleet.launched, 'worker')} launched" if fleet.launched else ""
    out.print(f"{tables}{launched}" if found else "no tables")
    explain_stopped_tables(fleet, rows, found, config)
    codes = [progress.code for progress in found.values()]
    if registry.problem is not None:
        codes.append(exit_code(registry.problem))
    return worst_exit(codes)


def _describe(progress: TableProgress, row: TableRow | None) -> str:
    """Return the progress as a word that agrees with the state in `icemirror status`.

    Only a job reads the mirror: until one has, it is unknown whether the mirror is behind.
    """
    from trigger.status.table_progress import TableProgress

    if progress is TableProgress.CURRENT:
        return "paused" if row is not None and row.paused else "current"
    if progress is not TableProgress.BEHIND:
        return progress.value
    if row is not None and row.owner is not None:
        return "running"
    return "pending" if row is not None and row.covered else "not checked yet"
