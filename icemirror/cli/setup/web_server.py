"""Starts the web server of `watch` and `serve`: at `--http`, and at the configured Prometheus address."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from icemirror.cli.terminal.console import err
from icemirror.http.routes import Endpoints, always_healthy, always_ready

if TYPE_CHECKING:
    from icemirror.http.routes import HttpPost, HttpResponse
    from icemirror.settings import Settings
    from icemirror.settings.address import Address
    from trigger.dispatch.dispatcher import Dispatcher
    from trigger.status.local_backlog import LocalBacklogs


def start_web_server(
    stack: ExitStack,
    settings: Settings,
    dispatcher: Dispatcher,
    http: str | None,
    *,
    unready: Callable[[], str] = always_ready,
    healthy: Callable[[], bool] = always_healthy,
    notify: Callable[[Address], Callable[[HttpPost], HttpResponse]] | None = None,
    local_backlogs: LocalBacklogs | None = None,
) -> None:
    """Serve status page and metrics until the stack closes; `/notify` only at the address of `--http`."""
    from icemirror.http.server import start_optional_server, start_server
    from icemirror.protocol.row_selection import ALL_ROWS
    from icemirror.settings.address import Address
    from trigger.status.table_status import table_statuses

    endpoints = Endpoints(
        status=lambda: table_statuses(
            dispatcher.registry.tables,
            dispatcher.store.load(ALL_ROWS),
            time.time(),
            slots=dispatcher.policy.slots,
            local_backlogs=local_backlogs,
        ),
        metrics=dispatcher.metrics.exposition,
        unready=unready,
        healthy=healthy,
        project_ref=settings.project_ref,
        environment=settings.environment,
    )
    if http is not None:
        try:
            address = Address.parse(http)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="'--http'") from error
        server = start_server(address, replace(endpoints, notify=notify(address) if notify else None))
        stack.callback(server.close)
        err.print(f"status page: {server.url}")
    if settings.telemetry.prometheus is not None:
        metrics_server = start_optional_server(settings.telemetry.prometheus, endpoints)
        if metrics_server is not None:
            stack.callback(metrics_server.close)
