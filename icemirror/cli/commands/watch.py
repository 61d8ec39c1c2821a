"""`icemirror watch`: the embedded trigger."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click
from rich.live import Live

from icemirror.cli.commands.status import render_status
from icemirror.cli.setup.pipeline import silence_log
from icemirror.cli.setup.web_server import start_web_server
from icemirror.cli.terminal.console import config_option, err, load
from icemirror.cli.terminal.examples import examples
from icemirror.cli.terminal.table_errors import explain_stopped_tables
from icemirror.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Callable

    from icemirror.protocol.rows import Rows
    from trigger.dispatch.fleet import Fleet
    from trigger.status.snapshot_lineage import SnapshotLineages


@click.command(epilog=examples("icemirror watch --http 127.0.0.1:8080", "icemirror watch --until-idle"))
@config_option
@click.option("--until-idle", is_flag=True, help="End when every mirror has reached its changelog's head.")
@click.option("--http", metavar="ADDR", help="Status page and metrics at this address: HOST:PORT.")
def watch(config: str | None, until_idle: bool, http: str | None) -> int:
    """Keep all mirrors current: poll the changelogs' heads, coalesce commits, launch workers.

    Ctrl-C ends it. A running job finishes by itself.
    """
    from icemirror.protocol.reads import EVERYTHING
    from icemirror.stores.from_settings import open_store
    from icemirror.telemetry.from_settings import start_logs
    from icemirror.telemetry.metrics import open_metrics
    from trigger.service.watch import WatchLoop
    from trigger.status.run_reporter import RunReporter
    from trigger.status.snapshot_lineage import SnapshotLineages
    from trigger.wiring import build_fleet

    settings = load(config)
    live = err.is_terminal
    start_logs(settings, quiet=live)
    if live:  # the live table shows failures
        silence_log(RunReporter.__module__)
    stop, interrupted = threading.Event(), threading.Event()

    def on_signal(number: int, _: object) -> None:
        stop.set()
        if number == signal.SIGINT:
            interrupted.set()
            signal.signal(number, signal.default_int_handler)  # a second Ctrl-C does not wait for the round

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    with ExitStack() as stack:
        store = stack.enter_context(open_store(settings))
        metrics = open_metrics(
            project_ref=settings.project_ref,
            environment=settings.environment,
            prometheus=settings.telemetry.prometheus is not None or http is not None,
            otlp=settings.telemetry.otlp,
        )
        stack.callback(metrics.close)
        fleet = build_fleet(settings, store, metrics, os.environ)
        stack.callback(fleet.registry.close)
        lineages = SnapshotLineages()
        watching = WatchLoop(
            fleet=fleet,
            reporting=RunReporter(store, metrics, store.last_cursor(), lineages, fleet.registry.names),
            poll_seconds=settings.trigger.poll_interval,
            until_idle=until_idle,
            stop=stop,
        )
        start_web_server(stack, settings, fleet, http, lineages=lineages, unready=lambda: watching.problem)
        if live:
            watching.on_round = _live(stack, fleet, lineages)
        code = watching.run()
        if code is not Exit.DONE:
            explain_stopped_tables(fleet, store.load(EVERYTHING), watching.progress_by_table, config)
    # With --until-idle, a stop before everything is merged is not a success.
    return Exit.INTERRUPTED if interrupted.is_set() or (until_idle and stop.is_set()) else code


def _live(stack: ExitStack, fleet: Fleet, lineages: SnapshotLineages) -> Callable[[Rows], None]:
    """Return a function that redraws the status table after every round."""
    from trigger.status.table_status import fleet_status

    display = stack.enter_context(Live(console=err, auto_refresh=False))

    def draw(rows: Rows) -> None:
        found = fleet_status(
            fleet.registry.tables, rows, time.time(), slots=fleet.policy.slots, lineages=lineages
        )
        display.update(render_status(found, err.width), refresh=True)

    return draw
