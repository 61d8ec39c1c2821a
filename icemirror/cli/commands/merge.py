"""`icemirror merge`: merges tables in this process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.progress import Progress, TaskID
from rich.table import Table
from rich.text import Text

from icemirror.cli.commands.plan import print_plans
from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.setup.pipeline import is_debug, is_interactive, open_pipeline, silence_log
from icemirror.cli.setup.tables import select_job_tables, tables_option
from icemirror.cli.terminal.columns import Column, fit_columns
from icemirror.cli.terminal.console import out, print_error, print_hint, print_json, print_result
from icemirror.cli.terminal.progress import open_progress
from icemirror.cli.terminal.text import examples, format_count, prefix_table
from icemirror.errors import IcemirrorError, exit_for_kind, worst_exit

if TYPE_CHECKING:
    from icemirror.result import SliceResult, TableResult
    from icemirror.settings import Settings, TableSettings
    from icemirror.step_results import Staged


@click.command(epilog=examples("icemirror merge", "icemirror merge -t shop.orders -t shop.items --json"))
@config_option
@tables_option
@click.option("--dry-run", is_flag=True, help="Show the plan, merge nothing (same as `icemirror plan`).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per table on stdout.")
def merge(config: str | None, names: tuple[str, ...], dry_run: bool, as_json: bool) -> int:
    """Merge all new events once, in this process.

    Runs on local Spark, or on the cluster it was submitted to with spark-submit. Needs no trigger and no state. Safe
    while a trigger runs: a commit succeeds only on the mirror snapshot that it was computed from.
    """
    settings = load_configuration(config)
    tables = select_job_tables(settings, names)
    if dry_run:
        return print_plans(settings, tables, as_json=as_json)
    for name in _paused_tables(settings, tables):
        print_hint(f"{name}: paused for the trigger; merging it anyway")
    results = _merge(settings, tables, as_json=as_json)
    if not as_json:
        if results:
            print_result(render_results(results, out.width))
        for result in results:
            if result.error:
                print_error(prefix_table(result.table, result.error.message))
    return worst_exit([exit_for_kind(result.error.kind) for result in results if result.error])


def _paused_tables(settings: Settings, tables: tuple[TableSettings, ...]) -> list[str]:
    """Return the paused tables, if the state is on this machine: a merge must not depend on a remote state."""
    from icemirror.settings.trigger import SqliteState
    from icemirror.stores.from_settings import read_rows

    if not isinstance(settings.trigger.state, SqliteState):
        return []
    try:
        rows = read_rows(settings)
    except IcemirrorError:
        return []
    return [table.name for table in tables if rows.table(table.name).paused]


def _merge(settings: Settings, tables: tuple[TableSettings, ...], *, as_json: bool) -> list[TableResult]:
    from icemirror.telemetry.start_telemetry import open_report
    from spark_job.commands.merge_table import merge_table

    pipeline = open_pipeline(settings, "merge", as_json=as_json, commits=True)
    if is_interactive(as_json=as_json) and not is_debug():  # the caller prints a failed table
        silence_log(merge_table.__module__)
    report = open_report(settings)
    results: list[TableResult] = []
    with open_progress() as progress:
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


def _show_slice(progress: Progress, task: TaskID, name: str, result: SliceResult) -> None:
    progress.update(task, description=f"{name}: {format_count(result.events, 'event')} merged")


def _show_stage(progress: Progress, task: TaskID, name: str, staged: Staged) -> None:
    progress.update(task, description=f"{name}: rebuilding, {staged.events:,} of {staged.of_events:,} events")


def render_results(results: list[TableResult], width: int) -> Table | Group:
    """Return the results as a table."""
    styles = {"merged": "green", "rebuilt": "green", "up-to-date": "dim", "failed": "red"}
    count_columns = [
        Column(
            name,
            [
                _slice_count(result, sum(getattr(slice_, name) for slice_ in result.slices))
                for result in results
            ],
            "right",
            drop_rank=1 if name in ("stale", "unchanged") else 0,
        )
        for name in ("events", "inserted", "updated", "deleted", "stale", "unchanged", "rejected")
        if name not in ("unchanged", "rejected")
        or any(getattr(slice_, name) for result in results for slice_ in result.slices)
    ]
    live_rows = ["" if result.live_rows is None else f"{result.live_rows:,}" for result in results]
    columns = [
        Column("table", [Text(result.table) for result in results]),
        Column("outcome", [Text(result.outcome, styles.get(result.outcome, "")) for result in results]),
        Column(
            "commits",
            [_slice_count(result, len(result.slices)) for result in results],
            "right",
            drop_rank=3,
        ),
        *count_columns,
        Column("live rows", [Text(text) for text in live_rows], "right"),
        Column("seconds", [Text(f"{result.seconds:.2f}") for result in results], "right", drop_rank=2),
    ]
    return fit_columns(columns, width)


def _slice_count(result: TableResult, count: int) -> Text:
    """Return a number that the slices of a table add up to; empty for a rebuild, which has no slices."""
    return Text("" if result.outcome == "rebuilt" and not result.slices else f"{count:,}")
