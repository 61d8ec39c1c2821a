"""`icemirror sweep`: one round of the trigger, for cron."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import closing

import click

from icemirror.cli.terminal.console import config_option, load, out
from icemirror.cli.terminal.table_errors import explain_stopped_tables
from icemirror.errors import exit_code, worst_exit


@click.command()
@config_option
def sweep(config: str | None) -> int:
    """Check every changelog once: record new commits, recover failed runs, launch workers.

    Waits for the quiet period of the recorded commits (`trigger.quiet_period`, at most `trigger.max_wait`).
    """
    from icemirror.stores.from_settings import open_store
    from icemirror.telemetry.from_settings import start_logs
    from icemirror.telemetry.metrics import NoMetrics
    from trigger.dispatch.due import dispatch_when_due
    from trigger.status.table_progress import HeadObservation, TableProgress, progress_by_table
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
    counts = Counter(found.values())
    out.print(", ".join(f"{counts[kind]} {kind}" for kind in TableProgress if counts[kind]) or "no tables")
    explain_stopped_tables(fleet, rows, found, config)
    codes = [one.code for one in found.values()]
    if registry.problem is not None:
        codes.append(exit_code(registry.problem))
    return worst_exit(codes)
