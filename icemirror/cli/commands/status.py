"""`icemirror status`: state, lag and last run of every table."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click
from rich.console import Group
from rich.filesize import decimal
from rich.text import Text

from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.setup.tables import open_registry, table_or_match_options
from icemirror.cli.terminal.columns import Column, fit_columns
from icemirror.cli.terminal.console import out, print_hint, print_json, print_result
from icemirror.cli.terminal.text import examples, format_count, format_duration, prefix_table

if TYPE_CHECKING:
    from icemirror.result import ErrorResult
    from icemirror.settings import Settings, TableSettings
    from icemirror.step_results import MeasuredBacklog

_DAY_SECONDS = 86_400
_STYLES = {
    "idle": "green",
    "running": "cyan",
    "launching": "cyan",
    "waiting": "yellow",
    "quarantined": "red",
    "blocked": "red",
    "paused": "magenta",
}


@click.command(epilog=examples("icemirror status", "icemirror status -t shop.orders --json"))
@config_option
@table_or_match_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object per table on stdout.")
def status(config: str | None, names: tuple[str, ...], pattern: str | None, as_json: bool) -> None:
    """Show each table's state, its lag in seconds, snapshots and events, its last run and its failures.

    \b
    idle         nothing to merge
    waiting      work is pending
    launching    a job starts
    running      a job merges
    paused       by `icemirror pause`
    blocked      correct the cause, then `icemirror resume`
    quarantined  gave up after failures; retried every merge_interval

    Shows all tables without --table and --match. The exit code does not depend on the states; scripts use --json.
    """
    if names and pattern is not None:
        raise click.UsageError("give either --table or --match")
    from icemirror.stores.from_settings import build_policy, read_rows
    from trigger.status.table_status import table_status

    settings = load_configuration(config)
    rows = read_rows(settings)
    with open_registry(settings) as registry:
        for problem in registry.unmatched_messages:
            print_hint(f"discover: {problem}")
        is_selected = names or pattern is not None
        tables = registry.select_tables(names, pattern) if is_selected else registry.tables
    backlogs, slots = _measure_backlogs(settings, tables), build_policy(settings).slots
    now = time.time()  # after the measurement: its commits are in the past
    statuses = [
        table_status(table, rows, now, slots=slots, measured=backlog)
        for table, backlog in zip(tables, backlogs, strict=True)
    ]
    if as_json:
        for status in statuses:
            print_json(status)
        return
    if statuses:
        print_result(render_status(statuses, out.width, now))


def _measure_backlogs(
    settings: Settings, tables: Sequence[TableSettings]
) -> list[MeasuredBacklog | ErrorResult | None]:
    """Return the backlogs, measured on the tables themselves; None if the job is not installed."""
    try:
        from spark_job.commands.lag import LagMeter

        meter = LagMeter(settings)
    except ModuleNotFoundError:
        return [None] * len(tables)
    return [meter.measure_backlog(table) for table in tables]


def render_status(statuses: Sequence[dict[str, Any]], width: int, now: float) -> Group:
    """Return the statuses as one table, a line each as far as there is room, with replays and errors below it."""
    grid = fit_columns(
        [
            Column(
                column.name, [column.render(status) for status in statuses], column.justify, column.drop_rank
            )
            for column in _status_columns(now)
        ],
        width,
    )
    below: list[Text] = []
    for status in statuses:
        if status["replay"]:
            below.append(Text(f"{status['table']}: {_describe_replay(status['replay'])}", style="cyan"))
        elif status["last_replay"] and status["last_replay"]["error"]:
            message = f"the last replay failed: {status['last_replay']['error']['message']}"
            below.append(Text(f"{status['table']}: {message}", style="yellow"))
        if status["error"]:
            below.append(Text(prefix_table(status["table"], status["error"]["message"]), style="red"))
        if status["state"] in ("blocked", "quarantined"):
            resume = f"icemirror resume --table {shlex.quote(status['table'])}"
            below.append(Text(f"  after fixing it: {resume}", style="dim"))
    return Group(grid, *below)


class _StatusColumn(NamedTuple):
    name: str
    render: Callable[[dict[str, Any]], Text]
    drop_rank: int = 0
    justify: Literal["left", "right"] = "left"


def _state(status: dict[str, Any]) -> Text:
    return Text(status["state"], style=_STYLES.get(status["state"], ""))


def _live_rows(status: dict[str, Any]) -> Text:
    return Text("" if status["live_rows"] is None else f"{status['live_rows']:,}")


def _index(status: dict[str, Any]) -> Text:
    return Text("" if status["index_bytes"] is None else decimal(status["index_bytes"]))


def _status_columns(now: float) -> tuple[_StatusColumn, ...]:
    return (
        _StatusColumn("table", lambda status: Text(status["table"])),
        _StatusColumn("state", _state),
        _StatusColumn("lag", lambda status: Text(_lag(status["lag"]["seconds"])), 0, "right"),
        _StatusColumn("backlog", lambda status: Text(_backlog(status["lag"])), 0, "right"),
        _StatusColumn("live rows", _live_rows, 1, "right"),
        _StatusColumn("index", _index, 2, "right"),
        _StatusColumn("last run", lambda status: Text(_last_run(status["last_run"], now)), 3),
    )


def _describe_replay(replay: dict[str, Any]) -> str:
    start = (
        f"from snapshot {replay['from_snapshot']}" if replay["from_snapshot"] else f"since {replay['since']}"
    )
    request = "rebuild from the whole changelog" if replay["full"] else f"replay {start}"
    if replay["events"] is None:
        return f"{request}: waiting"
    return f"{request}: {replay['events']:,} of {format_count(replay['of_events'], 'event')}"


def _lag(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)


def _backlog(lag: dict[str, Any]) -> str:
    if lag["snapshots"] is None:
        return ""
    return format_count(lag["events"], "event") if lag["snapshots"] else "–"


def _last_run(run: dict[str, Any] | None, now: float) -> str:
    if run is None:
        return ""
    ended_at = datetime.fromisoformat(run["ended_at"]).astimezone(UTC)
    age_seconds = max(0.0, now - ended_at.timestamp())
    time_ = (
        f"{format_duration(age_seconds)} ago"
        if age_seconds < _DAY_SECONDS
        else f"{ended_at:%Y-%m-%d %H:%M:%SZ}"
    )
    return f"{run['outcome']}, {format_count(run['events'], 'event')}, {time_}"
