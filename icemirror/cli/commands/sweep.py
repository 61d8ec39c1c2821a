"""`icemirror sweep`: one round of the trigger, for cron."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import click

from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.terminal.console import out
from icemirror.cli.terminal.stopped_tables import explain_stopped_tables
from icemirror.cli.terminal.text import examples, format_count
from icemirror.errors import exit_code, worst_exit

if TYPE_CHECKING:
    from icemirror.protocol.rows import TableRow
    from trigger.status.table_progress import TableProgress


@click.command(epilog=examples("icemirror sweep -c /etc/icemirror.yaml"))
@config_option
def sweep(config: str | None) -> int:
    """Check every changelog once and launch jobs for new commits. For cron.

    Also recovers failed runs. Waits for the quiet period of the recorded commits (`trigger.quiet_period`, at most
    `trigger.max_wait`).
    """
    from icemirror.stores.from_settings import open_store
    from icemirror.telemetry.metrics import NoMetrics
    from icemirror.telemetry.start_telemetry import start_logs
    from trigger.dispatch.launch_times import dispatch_when_due
    from trigger.status.table_progress import HeadObservation, progress_by_table
    from trigger.wiring import build_dispatcher

    settings = load_configuration(config)
    start_logs(settings)
    with open_store(settings) as store:
        dispatcher = build_dispatcher(settings, store, NoMetrics(), os.environ)
        registry = dispatcher.registry
        with closing(registry):
            registry.refresh()
            dispatcher.sweep()
            rows = dispatch_when_due(dispatcher, dispatcher.policy.max_wait_seconds)
            observations = {
                table.name: HeadObservation(head_seen=table.name in registry.tables_with_head, gave_up=True)
                for table in registry.tables
            }
    progress = progress_by_table(rows, observations, dispatcher.policy.slots)
    tables_by_word = Counter(
        _describe(table_progress, rows.tables.get(name)) for name, table_progress in progress.items()
    )
    tables = f"{format_count(len(progress), 'table')}: " + ", ".join(
        f"{count} {word}" for word, count in sorted(tables_by_word.items())
    )
    launched = (
        f"; {format_count(dispatcher.launched_workers, 'worker')} launched"
        if dispatcher.launched_workers
        else ""
    )
    out.print(f"{tables}{launched}" if progress else "no tables")
    explain_stopped_tables(dispatcher, rows, progress, config)
    codes = [table_progress.code for table_progress in progress.values()]
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
