"""`icemirror status`: state, lag and last run of every table."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from icemirror.cli.console import config_option, load, out, print_error, print_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from icemirror.settings import Settings, TableSettings
    from trigger.status import Unmerged

_STYLES = {"idle": "green", "running": "cyan", "launching": "cyan", "waiting": "yellow", "quarantined": "red"}


@click.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per table on stdout.")
def status(config: str | None, as_json: bool) -> None:
    """Show each table's state, its lag in seconds, snapshots and events, its last run and its failures."""
    from icemirror.state.configured import policy_of, read_rows
    from trigger.registry import Registry
    from trigger.status import table_status

    settings = load(config)
    rows = read_rows(settings)
    with closing(Registry(settings)) as registry:
        registry.refresh()
        if registry.problem is not None:
            print_error(f"discover: {registry.problem}")
        tables = registry.tables
    now, slots = time.time(), policy_of(settings).slots
    found = [
        table_status(table, rows, now, slots=slots, behind=behind)
        for table, behind in zip(tables, _lag(settings, tables), strict=True)
    ]
    if as_json:
        for one in found:
            print_json(one)
        return
    out.print(render_status(found))


def _lag(settings: Settings, tables: Sequence[TableSettings]) -> list[Unmerged | None]:
    """What the tables themselves say; None where they cannot be asked, or the job is not installed here."""
    from icemirror.errors import IcemirrorError
    from trigger.status import Unmerged

    try:
        from spark_job.lag import LagMeter

        meter = LagMeter(settings)
        found = [meter.behind(table) for table in tables]
    except (ModuleNotFoundError, IcemirrorError):
        return [None] * len(tables)
    return [None if behind is None else Unmerged(behind.snapshots, behind.events) for behind in found]


def render_status(tables: Iterable[dict[str, Any]]) -> Table:
    """The tables as one table for people."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("table")
    grid.add_column("state")
    for name in ("lag", "behind", "live rows", "index"):
        grid.add_column(name, justify="right")
    grid.add_column("last run")
    grid.add_column("error", overflow="fold")
    for one in tables:
        state = one["state"]
        grid.add_row(
            one["table"],
            Text(state, style=_STYLES.get(state, "")),
            _seconds(one["lag"]["seconds"]),
            _behind(one["lag"]),
            "" if one["live_rows"] is None else f"{one['live_rows']:,}",
            "" if one["index_bytes"] is None else decimal(one["index_bytes"]),
            _last_run(one["last_run"]),
            Text(one["error"]["message"] if one["error"] else "", style="red"),
        )
    return grid


def _seconds(lag: float | None) -> str:
    return "" if lag is None else f"{lag:.1f} s"


def _behind(lag: dict[str, Any]) -> str:
    if lag["snapshots"] is None:
        return ""
    return f"{lag['events']:,} events" if lag["snapshots"] else "–"


def _last_run(run: dict[str, Any] | None) -> str:
    return "" if run is None else f"{run['outcome']}, {run['events']:,} events at {run['ended_at'][11:19]}"
