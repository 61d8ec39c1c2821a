"""Starts the web server of `watch` and `serve`: at `--http`, and at the configured Prometheus address."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from icemirror.cli.terminal.console import err

if TYPE_CHECKING:
    from icemirror.http.server import HttpPost, HttpResponse
    from icemirror.settings import Settings
    from icemirror.settings.address import Address
    from trigger.dispatch.fleet import Fleet
    from trigger.status.snapshot_lineage import SnapshotLineages


def _always_healthy() -> bool:
    return True


def _no_problem() -> str:
    return ""


def start_web_server(
    stack: ExitStack,
    settings: Settings,
    fleet: Fleet,
    http: str | None,
    *,
    unready: Callable[[], str] = _no_problem,
    healthy: Callable[[], bool] = _always_healthy,
    notify: Callable[[Address], Callable[[HttpPost], HttpResponse]] | None = None,
    lineages: SnapshotLineages | None = None,
) -> None:
    """Serve status page and metrics until the stack closes; `/notify` only at the address of `--http`."""
    from icemirror.http.server import Endpoints, start_optional_server, start_server
    from icemirror.protocol.reads import EVERYTHING
    from icemirror.settings.address import Address
    from trigger.status.table_status import fleet_status

    sources = Endpoints(
        status=lambda: fleet_status(
            fleet.registry.tables,
            fleet.store.load(EVERYTHING),
            time.time(),
            slots=fleet.policy.slots,
            lineages=lineages,
        ),
        metrics=fleet.metrics.exposition,
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
        server = start_server(address, replace(sources, notify=notify(address) if notify else None))
        stack.callback(server.close)
        err.print(f"status page: {server.url}")
    if settings.telemetry.prometheus is not None:
        optional = start_optional_server(settings.telemetry.prometheus, sources)
        if optional is not None:
            stack.callback(optional.close)
