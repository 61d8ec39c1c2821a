"""`icemirror serve`: the long-running trigger."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.setup.web_server import start_web_server
from icemirror.cli.terminal.text import examples
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
    """Keep all mirrors current: receive commit events (Kafka, SQS, HTTP) and merge.

    Listens to the sources in `trigger.sources`, and checks the changelogs' heads every `merge_interval`, because events
    may be lost. SIGTERM and Ctrl-C end it: received events are stored and acknowledged, running jobs finish.
    """
    from icemirror.telemetry.metrics import open_metrics
    from icemirror.telemetry.start_telemetry import start_logs

    settings = load_configuration(config)
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
    from trigger.dispatch.ingest import EventIngest
    from trigger.listeners.notify import NotifyHandler
    from trigger.service.health import liveness_probe
    from trigger.status.run_reporter import RunReporter
    from trigger.wiring import build_dispatcher, build_service

    stop, interrupted = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number, events in ((signal.SIGTERM, (stop,)), (signal.SIGINT, (stop, interrupted))):
        loop.add_signal_handler(signal_number, _set_all, events)
    with ExitStack() as stack:
        store = stack.enter_context(open_store(settings))
        dispatcher = build_dispatcher(settings, store, metrics, os.environ)
        stack.callback(dispatcher.registry.close)
        reporter = RunReporter(
            store, metrics, store.last_cursor(), configured_tables=dispatcher.registry.names
        )
        service = build_service(settings, EventIngest(dispatcher), reporter, loop)
        http_source = settings.trigger.sources.http
        start_web_server(
            stack,
            settings,
            dispatcher,
            http,
            unready=service.health.describe_unready,
            healthy=liveness_probe(service.health),
            notify=lambda address: NotifyHandler(
                service.ingest,
                http_source.token.get_secret_value() if http_source else None,
                address.is_loopback,
                service.wake_signal.send,
            ),
        )
        await service.run(stop)
    return Exit.INTERRUPTED if interrupted.is_set() else Exit.DONE


def _set_all(events: tuple[asyncio.Event, ...]) -> None:
    for event in events:
        event.set()
