"""`icemirror status`: state, lag and last run of every table."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click
from rich.console import Group
from rich.filesize import decimal
from rich.text import Text

from icemirror.cli.setup.tables import open_registry
from icemirror.cli.terminal.columns import Column, fit_columns
from icemirror.cli.terminal.console import config_option, load, out, print_hint, print_json
from icemirror.cli.terminal.examples import examples
from icemirror.cli.terminal.wording import counted, with_table

if TYPE_CHECKING:
    from icemirror.result import ErrorResult, MeasuredBacklog
    from icemirror.settings import Settings, TableSettings

_STYLES = {
    "idle": "green",
    "running": "cyan",
    "launching": "cyan",
    "waiting": "yellow",
    "quarantined": "red",
    "blocked": "red",
    "paused": "magenta",
}


@click.command(epilog=examples("icemirror status", "icemirror status --json"))
@config_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per table on stdout.")
def status(config: str | None, as_json: bool) -> None:
    """Show each table's state, its lag in seconds, snapshots and events, its last run and its failures."""
    from icemirror.stores.from_settings import policy_of, read_rows
    from trigger.status.table_status import table_status

    settings = load(config)
    rows = read_rows(settings)
    with open_registry(settings) as registry:
        for problem in registry.unmatched:
            print_hint(f"discover: {problem}")
        tables = registry.tables
    measured, slots = _measure_lag(settings, tables), policy_of(settings).slots
    now = time.time()  # after the measurement: its commits are in the past
    found = [
        table_status(table, rows, now, slots=slots, measured=lag)
        for table, lag in zip(tables, measured, strict=True)
    ]
    if as_json:
        for status in found:
            print_json(status)
        return
    if found:
        out.print(render_status(found, out.width))


def _measure_lag(
    settings: Settings, tables: Sequence[TableSettings]
) -> list[MeasuredBacklog | ErrorResult | None]:
    """Measure the lag from the tables themselves; None if the job is not installed."""
    try:
        from spark_job.worker.lag import LagMeter

        meter = LagMeter(settings)
    except ModuleNotFoundError:
        return [None] * len(tables)
    return [meter.measure_backlog(table) for table in tables]


def render_status(tables: Iterable[dict[str, Any]], width: int) -> Group:
    """Return the tables as one table, a line each as far as there is room, with replays and errors below it."""
    tables = list(tables)
    grid = fit_columns(
        [
            Column(column.name, [column.render(status) for status in tables], column.justify, column.spare)
            for column in _COLUMNS
        ],
        width,
    )
    below: list[Text] = []
    for status in tables:
        if status["replay"]:
            below.append(Text(f"{status['table']}: {_replay(status['replay'])}", style="cyan"))
        elif status["last_replay"] and status["last_replay"]["error"]:
            message = f"the last replay failed: {status['last_replay']['error']['message']}"
            below.append(Text(f"{status['table']}: {message}", style="yellow"))
        if status["error"]:
            below.append(Text(with_table(status["table"], status["error"]["message"]), style="red"))
        if status["state"] == "quarantined":
            resume = f"icemirror resume --table {shlex.quote(status['table'])}"
            below.append(Text(f"  after fixing it: {resume}", style="dim"))
    return Group(grid, *below)


class _StatusColumn(NamedTuple):
    name: str
    render: Callable[[dict[str, Any]], Text]
    spare: int = 0
    justify: Literal["left", "right"] = "left"


def _state(status: dict[str, Any]) -> Text:
    return Text(status["state"], style=_STYLES.get(status["state"], ""))


def _live_rows(status: dict[str, Any]) -> Text:
    return Text("" if status["live_rows"] is None else f"{status['live_rows']:,}")


def _index(status: dict[str, Any]) -> Text:
    return Text("" if status["index_bytes"] is None else decimal(status["index_bytes"]))


_COLUMNS = (
    _StatusColumn("table", lambda status: Text(status["table"])),
    _StatusColumn("state", _state),
    _StatusColumn("lag", lambda status: Text(_seconds(status["lag"]["seconds"])), 0, "right"),
    _StatusColumn("behind", lambda status: Text(_behind(status["lag"])), 0, "right"),
    _StatusColumn("live rows", _live_rows, 1, "right"),
    _StatusColumn("index", _index, 2, "right"),
    _StatusColumn("last run", lambda status: Text(_last_run(status["last_run"])), 3),
)


def _replay(replay: dict[str, Any]) -> str:
    begins = (
        f"from snapshot {replay['from_snapshot']}" if replay["from_snapshot"] else f"since {replay['since']}"
    )
    what = "rebuild from the whole changelog" if replay["full"] else f"replay {begins}"
    if replay["events"] is None:
        return f"{what}: waiting"
    return f"{what}: {replay['events']:,} of {counted(replay['of_events'], 'event')}"


def _seconds(lag: float | None) -> str:
    return "" if lag is None else f"{lag:.1f} s"


def _behind(lag: dict[str, Any]) -> str:
    if lag["snapshots"] is None:
        return ""
    return counted(lag["events"], "event") if lag["snapshots"] else "–"


def _last_run(run: dict[str, Any] | None) -> str:
    if run is None:
        return ""
    return f"{run['outcome']}, {counted(run['events'], 'event')} at {run['ended_at'][11:19]}"
