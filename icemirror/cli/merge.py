"""`icemirror merge`: merges tables in this process."""

from __future__ import annotations

import logging
import uuid
from functools import partial
from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from icemirror.cli.console import config_option, err, load, out, print_error, print_hint, print_json
from icemirror.cli.counted import counted
from icemirror.cli.fitting import Column, fit
from icemirror.cli.plan import choose_tables, explain
from icemirror.cli.trouble import with_table
from icemirror.errors import IcemirrorError, exit_of, worst

if TYPE_CHECKING:
    from icemirror.result import SliceResult, Staged, TableResult
    from icemirror.settings import Settings, TableSettings


@click.command()
@config_option
@click.option("-t", "--table", "names", multiple=True, metavar="T", help="Only this table; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Show the plan, merge nothing (the same as `icemirror plan`).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per table on stdout.")
def merge(config: str | None, names: tuple[str, ...], dry_run: bool, as_json: bool) -> int:
    """Merge tables up to their changelogs' heads, in this process.

    Runs on local Spark, or on the Spark that it was submitted to. Needs no trigger and no state: a commit happens
    only on the very snapshot of the mirror that it was computed from, so running it beside a trigger is safe.
    """
    settings = load(config)
    tables = choose_tables(settings, names)
    if dry_run:
        return explain(settings, tables, as_json=as_json)
    for name in _paused(settings, tables):
        print_hint(f"{name}: is paused for the trigger; it is merged all the same")
    results = _merge(settings, tables, as_json=as_json)
    if not as_json:
        if results:
            out.print(render_results(results, out.width))
        for result in results:
            if result.error and err.is_terminal:  # elsewhere the log has told it
                print_error(with_table(result.table, result.error.message))
    return worst([exit_of(result.error.kind) for result in results if result.error])


def _paused(settings: Settings, tables: tuple[TableSettings, ...]) -> list[str]:
    """The paused ones among the tables, as far as a state on this machine tells: a merge depends on no other."""
    from icemirror.settings.trigger import SqliteState
    from icemirror.state.configured import read_rows

    if not isinstance(settings.trigger.state, SqliteState):
        return []
    try:
        rows = read_rows(settings)
    except IcemirrorError:
        return []
    return [table.name for table in tables if rows.table(table.name).paused]


def _merge(settings: Settings, tables: tuple[TableSettings, ...], *, as_json: bool) -> list[TableResult]:
    from icemirror.telemetry.configured import open_report, start_logs
    from spark_job.merge import merge_table
    from spark_job.wiring import build_pipeline

    people = err.is_terminal and not as_json
    debug = bool(click.get_current_context().find_root().params.get("debug"))
    start_logs(settings, quiet=people, debug=debug)
    if people and not debug:  # a failed table is told below, once
        logging.getLogger(merge_table.__module__).setLevel(logging.CRITICAL)
    report = open_report(settings)
    pipeline = build_pipeline(settings, run_id=f"merge-{uuid.uuid4()}")
    results: list[TableResult] = []
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        overall = progress.add_task("tables", total=len(tables))
        for table in tables:
            progress.update(overall, description=table.name)
            on_slice = partial(_show_slice, progress, overall, table.name)
            on_stage = partial(_show_stage, progress, overall, table.name)
            result = merge_table(pipeline, table, on_slice, report, on_stage)
            results.append(result)
            progress.advance(overall)
            if as_json:
                print_json(result.model_dump(mode="json", exclude=set() if result.error else {"error"}))
    return results


def _show_slice(progress: Progress, task: TaskID, name: str, part: SliceResult) -> None:
    progress.update(task, description=f"{name}: {counted(part.events, 'event')} merged")


def _show_stage(progress: Progress, task: TaskID, name: str, staged: Staged) -> None:
    progress.update(task, description=f"{name}: rebuilding, {staged.events:,} of {staged.of_events:,} events")


def render_results(results: list[TableResult], width: int) -> Table | Group:
    """What came of each table."""
    styles = {"merged": "green", "rebuilt": "green", "up-to-date": "dim", "failed": "red"}
    counted = [
        Column(
            name,
            [_count(result, sum(getattr(part, name) for part in result.slices)) for result in results],
            "right",
            spare=1 if name == "stale" else 0,
        )
        for name in ("events", "inserted", "updated", "deleted", "stale", "rejected")
        if name != "rejected" or any(part.rejected for result in results for part in result.slices)
    ]
    rows = ["" if result.live_rows is None else f"{result.live_rows:,}" for result in results]
    columns = [
        Column("table", [Text(result.table) for result in results]),
        Column("outcome", [Text(result.outcome, styles.get(result.outcome, "")) for result in results]),
        Column("commits", [_count(result, len(result.slices)) for result in results], "right", spare=3),
        *counted,
        Column("live rows", [Text(text) for text in rows], "right"),
        Column("seconds", [Text(f"{result.seconds:.2f}") for result in results], "right", spare=2),
    ]
    return fit(columns, width)


def _count(result: TableResult, number: int) -> Text:
    """Slices count; what a rebuild read and swapped in is none, and not nothing."""
    return Text("" if result.outcome == "rebuilt" and not result.slices else f"{number:,}")
