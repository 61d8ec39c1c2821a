"""`icemirror sweep`: one round of the trigger, for cron."""

from __future__ import annotations

import os

import click

from icemirror.cli.console import config_option, load, out
from icemirror.errors import Exit, worst


@click.command()
@config_option
def sweep(config: str | None) -> int:
    """Look at every changelog once: notice what moved, recover what died, launch a worker where one is wanted.

    A table waits for its quiet period, so that what this round notices may be launched by the next one.
    """
    from icemirror.state.configured import open_store
    from icemirror.telemetry.logs import configure
    from icemirror.telemetry.metrics import NoMetrics
    from trigger.idle import Standing, standing
    from trigger.wiring import build_fleet

    settings = load(config)
    configure(
        log_format=settings.telemetry.log_format,
        log_level=settings.telemetry.log_level,
        project_ref=settings.project_ref,
        environment=settings.environment,
    )
    with open_store(settings) as store:
        fleet = build_fleet(settings, store, NoMetrics(), os.environ)
        fleet.registry.refresh()
        rows = fleet.sweep()
        found = [standing(rows.tables.get(table.name)) for table in fleet.registry.tables]
        fleet.registry.close()
    out.print(", ".join(f"{found.count(kind)} {kind}" for kind in Standing if kind in found) or "no tables")
    codes = {Standing.NEEDS_PERSON: Exit.NEEDS_PERSON, Standing.GAVE_UP: Exit.RETRY_LATER}
    return worst([codes.get(kind, Exit.DONE) for kind in found])
