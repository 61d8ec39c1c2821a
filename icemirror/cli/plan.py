"""`icemirror plan`: what a merge would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.filesize import decimal
from rich.text import Text

from icemirror.cli.console import (
    config_option,
    load,
    out,
    print_error,
    print_hint,
    print_json,
    print_json_error,
)
from icemirror.cli.fitting import Column, fit, numbers
from icemirror.cli.trouble import with_table
from icemirror.errors import BadConfig, Exit, IcemirrorError, exit_code, filled, worst

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from icemirror.result import PlanResult
    from icemirror.settings import Settings, TableSettings


@click.command()
@config_option
@click.option("-t", "--table", "names", multiple=True, metavar="T", help="Only this table; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per table on stdout.")
def plan(config: str | None, names: tuple[str, ...], as_json: bool) -> int:
    """Show what a merge would do: snapshots, files, bytes, events, commits, schema changes. Changes nothing."""
    settings = load(config)
    return explain(settings, choose_tables(settings, names), as_json=as_json)


def choose_tables(settings: Settings, names: tuple[str, ...]) -> tuple[TableSettings, ...]:
    """The tables that were named, or all; discovered ones included."""
    from icemirror.settings.expand import unmatched
    from spark_job.iceberg.tables import Catalogs
    from spark_job.worker.discover import discover_tables

    settings = discover_tables(settings, Catalogs(settings))
    for problem in unmatched(settings):
        print_hint(f"discover: {problem}")
    chosen = {table.name: table for table in map(settings.table, names)}  # one that was named twice, once
    return tuple(chosen.values()) or settings.tables


def explain(settings: Settings, tables: tuple[TableSettings, ...], *, as_json: bool) -> int:
    """Prints the plan of each table."""
    from spark_job.replays.resync import look_ahead
    from spark_job.wiring import build_pipeline

    pipeline = build_pipeline(settings, run_id="plan")
    plans: list[PlanResult] = []
    codes: list[Exit] = []
    for table in tables:
        try:
            plans.append(pipeline.explain(look_ahead(pipeline, table)))
            if _stops(plans[-1]):
                print_error(_led(table, filled(plans[-1].refused or "", table.name)))
                codes.append(Exit.NEEDS_PERSON)
        except BadConfig:
            raise
        except IcemirrorError as error:
            print_error(_led(table, str(error)))
            codes.append(exit_code(error))
            if as_json:
                print_json_error(table.name, error)
            continue
        if as_json:
            print_json(plans[-1].model_dump(mode="json"))
    if not as_json and plans:
        out.print(render_plans(plans, out.width))
    return worst(codes)


def _stops(result: PlanResult) -> bool:
    """Events wait, and a merge refuses them."""
    return result.refused is not None and result.slices > 0


def _led(table: TableSettings, message: str) -> str:
    """The message, with the table before it unless it begins with one of its names."""
    return message if message.startswith(f"{table.changelog_id}: ") else with_table(table.name, message)


def _does(result: PlanResult) -> Text:
    changes = "; ".join(result.schema_changes)
    if _stops(result):  # (why stands on stderr)
        return Text(f"stops: {changes}" if changes else "stops", style="red")
    if result.refused is not None:
        why = changes or filled(result.refused, result.table)
        return Text(f"nothing; with the next events it stops: {why}", style="yellow")
    if result.rebuilds_mirror:
        return Text("rebuilds the mirror: its position is no longer in the changelog's history")
    if changes and result.slices:
        return Text(f"merges, and changes the mirror: {changes}")
    if changes:
        return Text(f"nothing; with the next events it changes the mirror: {changes}")
    if result.fills_mirror:
        return Text("fills the mirror, which is empty")
    return Text("creates the mirror" if result.creates_mirror else "merges" if result.slices else "nothing")


def render_plans(plans: list[PlanResult], width: int) -> Table | Group:
    """What would become of each table."""
    columns = [
        Column("table", [Text(result.table) for result in plans]),
        Column("does", [_does(result) for result in plans], wraps=True),
        numbers("snapshots", [result.snapshots for result in plans], spare=2),
        numbers("files", [result.files for result in plans], spare=3),
        Column("bytes", [Text(decimal(result.bytes)) for result in plans], "right", spare=1),
        numbers("events", [result.events for result in plans]),
        numbers("commits", [result.slices for result in plans], spare=4),
    ]
    return fit(columns, width)
