"""The web server of `watch` and `serve`: where somebody asked for it, and where the configuration says."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from icemirror.cli.console import err

if TYPE_CHECKING:
    from icemirror.settings import Settings
    from icemirror.settings.address import Address
    from icemirror.telemetry.server import Answer, Post
    from trigger.fleet import Fleet
    from trigger.lineages import Lineages


def _always() -> bool:
    return True


def _nothing() -> str:
    return ""


def listen(
    stack: ExitStack,
    settings: Settings,
    fleet: Fleet,
    http: str | None,
    *,
    unready: Callable[[], str] = _nothing,
    healthy: Callable[[], bool] = _always,
    notify: Callable[[Address], Callable[[Post], Answer]] | None = None,
    lineages: Lineages | None = None,
) -> None:
    """Status page and metrics until the stack ends; notices only at the address of `--http`."""
    from icemirror.settings.address import Address
    from icemirror.state.reads import EVERYTHING
    from icemirror.telemetry.server import Sources, start_optional_server, start_server
    from trigger.status import fleet_status

    sources = Sources(
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
            raise click.BadParameter(str(error), param_hint="--http") from error
        server = start_server(address, replace(sources, notify=notify(address) if notify else None))
        stack.callback(server.close)
        err.print(f"status page: {server.url}")
    if settings.telemetry.prometheus is not None:
        optional = start_optional_server(settings.telemetry.prometheus, sources)
        if optional is not None:
            stack.callback(optional.close)
