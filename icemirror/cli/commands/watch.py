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
from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.setup.pipeline import silence_log
from icemirror.cli.setup.web_server import start_web_server
from icemirror.cli.terminal.console import err
from icemirror.cli.terminal.stopped_tables import explain_stopped_tables
from icemirror.cli.terminal.text import examples
from icemirror.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Callable

    from icemirror.protocol.rows import Rows
    from trigger.dispatch.dispatcher import Dispatcher
    from trigger.status.local_backlog import LocalBacklogs


@click.command(epilog=examples("icemirror watch --http 127.0.0.1:8080", "icemirror watch --until-idle"))
@config_option
@click.option("--until-idle", is_flag=True, help="End when every mirror has merged its whole changelog.")
@click.option("--http", metavar="ADDR", help="Status page and metrics at this address: HOST:PORT.")
def watch(config: str | None, until_idle: bool, http: str | None) -> int:
    """Keep all mirrors current: poll the changelogs every second and merge new commits.

    Ctrl-C ends it. A running job finishes by itself.
    """
    from icemirror.protocol.row_selection import ALL_ROWS
    from icemirror.stores.from_settings import open_store
    from icemirror.telemetry.metrics import open_metrics
    from icemirror.telemetry.start_telemetry import start_logs
    from trigger.service.watch import WatchLoop
    from trigger.status.local_backlog import LocalBacklogs
    from trigger.status.run_reporter import RunReporter
    from trigger.wiring import build_dispatcher

    settings = load_configuration(config)
    live = err.is_terminal
    start_logs(settings, quiet=live)
    if live:  # the live table shows failures
        silence_log(RunReporter.__module__)
    stop, interrupted = threading.Event(), threading.Event()

    def on_signal(signal_number: int, _: object) -> None:
        stop.set()
        if signal_number == signal.SIGINT:
            interrupted.set()
            signal.signal(
                signal_number, signal.default_int_handler
            )  # a second Ctrl-C does not wait for the round

    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, on_signal)
    with ExitStack() as stack:
        store = stack.enter_context(open_store(settings))
        metrics = open_metrics(
            project_ref=settings.project_ref,
            environment=settings.environment,
            prometheus=settings.telemetry.prometheus is not None or http is not None,
            otlp=settings.telemetry.otlp,
        )
        stack.callback(metrics.close)
        dispatcher = build_dispatcher(settings, store, metrics, os.environ)
        stack.callback(dispatcher.registry.close)
        local_backlogs = LocalBacklogs()
        watch_loop = WatchLoop(
            dispatcher=dispatcher,
            reporter=RunReporter(
                store, metrics, store.last_cursor(), local_backlogs, dispatcher.registry.names
            ),
            poll_seconds=settings.trigger.poll_interval,
            until_idle=until_idle,
            stop=stop,
        )
        start_web_server(
            stack,
            settings,
            dispatcher,
            http,
            local_backlogs=local_backlogs,
            unready=lambda: watch_loop.problem,
        )
        if live:
            watch_loop.on_round = _start_live_table(stack, dispatcher, local_backlogs)
        code = watch_loop.run()
        if code is not Exit.DONE:
            explain_stopped_tables(dispatcher, store.load(ALL_ROWS), watch_loop.progress_by_table, config)
    # With --until-idle, a stop before everything is merged is not a success.
    return Exit.INTERRUPTED if interrupted.is_set() or (until_idle and stop.is_set()) else code


def _start_live_table(
    stack: ExitStack, dispatcher: Dispatcher, local_backlogs: LocalBacklogs
) -> Callable[[Rows], None]:
    """Return a function that redraws the status table after every round."""
    from trigger.status.table_status import table_statuses

    display = stack.enter_context(Live(console=err, auto_refresh=False))

    def draw(rows: Rows) -> None:
        now = time.time()
        statuses = table_statuses(
            dispatcher.registry.tables,
            rows,
            now,
            slots=dispatcher.policy.slots,
            local_backlogs=local_backlogs,
        )
        display.update(render_status(statuses, err.width, now), refresh=True)

    return draw
