"""`icemirror sweep`: one round of the trigger, for cron."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import closing

import click

from icemirror.cli.console import config_option, load, out
from icemirror.cli.trouble import explain_trouble
from icemirror.errors import exit_code, worst


@click.command()
@config_option
def sweep(config: str | None) -> int:
    """Look at every changelog once: notice what moved, recover what died, launch a worker where one is wanted.

    Stays for the quiet period of what it noticed (`trigger.quiet_period`, at most `trigger.max_wait`).
    """
    from icemirror.state.configured import open_store
    from icemirror.telemetry.configured import start_logs
    from icemirror.telemetry.metrics import NoMetrics
    from trigger.idle import Sight, Standing, standings
    from trigger.wiring import build_fleet

    settings = load(config)
    start_logs(settings)
    with open_store(settings) as store:
        fleet = build_fleet(settings, store, NoMetrics(), os.environ)
        registry = fleet.registry
        with closing(registry):
            registry.refresh()
            rows = fleet.sweep_once()
            sights = {table.name: Sight(looked=table.name in registry.seen) for table in registry.tables}
    found = standings(rows, sights, fleet.policy.slots)
    counts = Counter(found.values())
    out.print(", ".join(f"{counts[kind]} {kind}" for kind in Standing if counts[kind]) or "no tables")
    explain_trouble(fleet, rows, found, config)
    codes = [one.code for one in found.values()]
    if registry.problem is not None:
        codes.append(exit_code(registry.problem))
    return worst(codes)
