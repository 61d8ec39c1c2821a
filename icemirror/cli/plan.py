"""`icemirror plan`: what a merge would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.filesize import decimal
from rich.table import Table
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
from icemirror.errors import BadConfig, Exit, IcemirrorError, exit_code, worst

if TYPE_CHECKING:
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
    from spark_job.discover import discover_tables

    settings = discover_tables(settings)
    for problem in unmatched(settings):
        print_hint(f"discover: {problem}")
    return tuple(settings.table(name) for name in names) or settings.tables


def explain(settings: Settings, tables: tuple[TableSettings, ...], *, as_json: bool) -> int:
    """Prints the plan of each table."""
    from spark_job.wiring import build_pipeline

    pipeline = build_pipeline(settings, run_id="plan")
    plans: list[PlanResult] = []
    codes: list[Exit] = []
    for table in tables:
        try:
            plans.append(pipeline.explain(table))
            if _stops(plans[-1]):
                codes.append(Exit.NEEDS_PERSON)
        except BadConfig:
            raise
        except IcemirrorError as error:
            print_error(str(error))
            codes.append(exit_code(error))
            if as_json:
                print_json_error(table.name, error)
            continue
        if as_json:
            print_json(plans[-1].model_dump(mode="json"))
    if not as_json and plans:
        out.print(_render(plans))
    return worst(codes)


def _stops(result: PlanResult) -> bool:
    """Events wait, and a merge refuses them."""
    return bool(result.schema_changes) and result.slices > 0


def _does(result: PlanResult) -> Text:
    changes = "; ".join(result.schema_changes)
    if _stops(result):
        return Text(f"stops: {changes}", style="red")
    if changes:
        return Text(f"nothing; with the next events it stops: {changes}", style="yellow")
    if result.fills_mirror:
        return Text("fills the mirror, which is empty")
    return Text("creates the mirror" if result.creates_mirror else "merges" if result.slices else "nothing")


def _render(plans: list[PlanResult]) -> Table:
    table = Table("table", "does", box=None, pad_edge=False, header_style="bold")
    for name in ("snapshots", "files", "bytes", "events", "commits"):
        table.add_column(name, justify="right")
    for result in plans:
        table.add_row(
            Text(result.table),
            _does(result),
            f"{result.snapshots:,}",
            f"{result.files:,}",
            decimal(result.bytes),
            f"{result.events:,}",
            f"{result.slices:,}",
        )
    return table
