"""`icemirror watch`: the embedded trigger."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click
from rich.live import Live

from icemirror.cli.console import config_option, err, load
from icemirror.cli.listen import listen
from icemirror.cli.status import render_status
from icemirror.cli.trouble import explain_trouble
from icemirror.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Callable

    from icemirror.state.rows import Rows
    from trigger.fleet import Fleet
    from trigger.lineages import Lineages


@click.command()
@config_option
@click.option("--until-idle", is_flag=True, help="End when every mirror has reached its changelog's head.")
@click.option("--http", metavar="ADDR", help="Status page and metrics at this address, e.g. 127.0.0.1:8080.")
def watch(config: str | None, until_idle: bool, http: str | None) -> int:
    """Keep all mirrors current: look at the changelogs' heads, coalesce, launch a worker where one is wanted.

    Ctrl-C ends the watching. A job that is at work then finishes by itself.
    """
    from icemirror.state.configured import open_store
    from icemirror.state.reads import EVERYTHING
    from icemirror.telemetry.configured import start_logs
    from icemirror.telemetry.metrics import open_metrics
    from trigger.lineages import Lineages
    from trigger.reporting import Reporting
    from trigger.watch import Watch
    from trigger.wiring import build_fleet

    settings = load(config)
    live = err.is_terminal
    start_logs(settings, quiet=live)
    if live:  # the table on the screen shows it
        logging.getLogger(Reporting.__module__).setLevel(logging.CRITICAL)
    stop, interrupted = threading.Event(), threading.Event()

    def on_signal(number: int, _: object) -> None:
        stop.set()
        if number == signal.SIGINT:
            interrupted.set()
            signal.signal(number, signal.default_int_handler)  # the second one does not wait for the round

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
        lineages = Lineages()
        watching = Watch(
            fleet=fleet,
            reporting=Reporting(store, metrics, store.last_cursor(), lineages, fleet.registry.names),
            poll_seconds=settings.trigger.poll_interval,
            until_idle=until_idle,
            stop=stop,
        )
        listen(stack, settings, fleet, http, lineages=lineages, unready=lambda: watching.problem)
        if live:
            watching.on_round = _live(stack, fleet, lineages)
        code = watching.run()
        if code is not Exit.DONE:
            explain_trouble(fleet, store.load(EVERYTHING), watching.standings, config)
    # A stop before all was merged is no success of --until-idle, whoever asked for it.
    return Exit.INTERRUPTED if interrupted.is_set() or (until_idle and stop.is_set()) else code


def _live(stack: ExitStack, fleet: Fleet, lineages: Lineages) -> Callable[[Rows], None]:
    """A table that is drawn anew after every round."""
    from trigger.status import fleet_status

    display = stack.enter_context(Live(console=err, auto_refresh=False))

    def draw(rows: Rows) -> None:
        found = fleet_status(
            fleet.registry.tables, rows, time.time(), slots=fleet.policy.slots, lineages=lineages
        )
        display.update(render_status(found, err.width), refresh=True)

    return draw
