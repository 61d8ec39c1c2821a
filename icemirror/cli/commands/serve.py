"""`icemirror serve`: the long-running trigger."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from icemirror.cli.setup.web_server import start_web_server
from icemirror.cli.terminal.console import config_option, load
from icemirror.cli.terminal.examples import examples
from icemirror.errors import BadConfig, Exit

if TYPE_CHECKING:
    from icemirror.settings import Settings
    from icemirror.telemetry.metrics import Metrics


@click.command(epilog=examples("icemirror serve --http 127.0.0.1:8080"))
@config_option
@click.option(
    "--http", metavar="ADDR", help="Status page, metrics and POST /notify at this address: HOST:PORT."
)
def serve(config: str | None, http: str | None) -> int:
    """Keep all mirrors current from events: receive commits, coalesce, launch workers.

    Listens to the sources in `trigger.sources`, and checks the changelogs' heads every `merge_interval`, because events
    may be lost. SIGTERM and Ctrl-C end it: received events are stored and acknowledged, running jobs finish.
    """
    from icemirror.telemetry.from_settings import start_logs
    from icemirror.telemetry.metrics import open_metrics

    settings = load(config)
    start_logs(settings)
    if settings.trigger.sources.http is not None and http is None:
        raise BadConfig(
            "trigger.sources.http is configured, but `icemirror serve` has no address: add --http HOST:PORT"
        )
    metrics = open_metrics(
        project_ref=settings.project_ref,
        environment=settings.environment,
        prometheus=settings.telemetry.prometheus is not None or http is not None,
        otlp=settings.telemetry.otlp,
    )
    try:
        return asyncio.run(_serve(settings, metrics, http))
    finally:
        metrics.close()


async def _serve(settings: Settings, metrics: Metrics, http: str | None) -> int:
    from icemirror.stores.from_settings import open_store
    from trigger.dispatch.ingest import Ingest
    from trigger.listeners.notify import Notify
    from trigger.service.health import liveness_probe
    from trigger.status.run_reporter import RunReporter
    from trigger.wiring import build_fleet, build_service

    stop, interrupted = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number, events in ((signal.SIGTERM, (stop,)), (signal.SIGINT, (stop, interrupted))):
        loop.add_signal_handler(number, _set_all, events)
    with ExitStack() as stack:
        store = stack.enter_context(open_store(settings))
        fleet = build_fleet(settings, store, metrics, os.environ)
        stack.callback(fleet.registry.close)
        reporting = RunReporter(store, metrics, store.last_cursor(), known=fleet.registry.names)
        service = build_service(settings, Ingest(fleet), reporting, loop)
        token = settings.trigger.sources.http
        start_web_server(
            stack,
            settings,
            fleet,
            http,
            unready=service.health.unready,
            healthy=liveness_probe(service.health),
            notify=lambda address: Notify(
                service.ingest,
                token.token.get_secret_value() if token else None,
                address.is_loopback,
                service.wake_signal.send,
            ),
        )
        await service.run(stop)
    return Exit.INTERRUPTED if interrupted.is_set() else Exit.DONE


def _set_all(events: tuple[asyncio.Event, ...]) -> None:
    for event in events:
        event.set()
