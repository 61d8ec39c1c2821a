"""`icemirror serve`: the long-running trigger."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from icemirror.cli.console import config_option, load
from icemirror.cli.listen import listen
from icemirror.errors import BadConfig, Exit

if TYPE_CHECKING:
    from icemirror.settings import Settings
    from icemirror.telemetry.metrics import Metrics


@click.command()
@config_option
@click.option("--http", metavar="ADDR", help="Status page, metrics and POST /notify at this address.")
def serve(config: str | None, http: str | None) -> int:
    """Keep all mirrors current by events: hear of commits, coalesce, launch a worker where one is wanted.

    Listens to what `trigger.sources` names, and looks at the changelogs' heads every `merge_interval`, for events may
    be lost. SIGTERM and Ctrl-C end it: what was heard by then is stored and acknowledged, and jobs are left to finish.
    """
    from icemirror.telemetry.configured import start_logs
    from icemirror.telemetry.metrics import open_metrics

    settings = load(config)
    start_logs(settings)
    if settings.trigger.sources.http is not None and http is None:
        raise BadConfig("trigger.sources.http: give the address to listen on, --http HOST:PORT")
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
    from icemirror.state.configured import open_store
    from trigger.intake import Intake
    from trigger.listeners.notify import Notify
    from trigger.listeners.open_service import open_service
    from trigger.reporting import Reporting
    from trigger.serve import say_hanging
    from trigger.wiring import build_fleet

    stop, interrupted = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number, events in ((signal.SIGTERM, (stop,)), (signal.SIGINT, (stop, interrupted))):
        loop.add_signal_handler(number, _set_all, events)
    with ExitStack() as stack:
        store = stack.enter_context(open_store(settings))
        fleet = build_fleet(settings, store, metrics, os.environ)
        stack.callback(fleet.registry.close)
        reporting = Reporting(store, metrics, store.last_cursor(), known=fleet.registry.names)
        service = open_service(settings, Intake(fleet), reporting, loop)
        token = settings.trigger.sources.http
        listen(
            stack,
            settings,
            fleet,
            http,
            unready=service.pulse.unready,
            healthy=say_hanging(service.pulse),
            notify=lambda address: Notify(
                service.intake,
                token.token.get_secret_value() if token else None,
                address.is_loopback,
                service.bell.ring,
            ),
        )
        await service.run(stop)
    return Exit.INTERRUPTED if interrupted.is_set() else Exit.DONE


def _set_all(events: tuple[asyncio.Event, ...]) -> None:
    for event in events:
        event.set()
