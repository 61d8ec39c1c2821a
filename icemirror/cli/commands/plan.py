"""`icemirror plan`: what a merge would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.filesize import decimal
from rich.text import Text

from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.setup.tables import select_job_tables, tables_option
from icemirror.cli.terminal.columns import Column, count_column, fit_columns
from icemirror.cli.terminal.console import out, print_error, print_json, print_json_error, print_result
from icemirror.cli.terminal.text import examples, prefix_table
from icemirror.errors import BadConfig, Exit, IcemirrorError, exit_code, with_table_name, worst_exit

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from icemirror.result import PlanResult
    from icemirror.settings import Settings, TableSettings


@click.command(epilog=examples("icemirror plan", "icemirror plan -t shop.orders --json"))
@config_option
@tables_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per table on stdout.")
def plan(config: str | None, names: tuple[str, ...], as_json: bool) -> int:
    """Show what a merge would do: snapshots, files, bytes, events, commits, schema changes. Changes nothing."""
    settings = load_configuration(config)
    return print_plans(settings, select_job_tables(settings, names), as_json=as_json)


def print_plans(settings: Settings, tables: tuple[TableSettings, ...], *, as_json: bool) -> int:
    """Print the plan of each table; return the exit code."""
    from spark_job.plan.describe_plan import describe_plan
    from spark_job.rebuild.resync import plan_with_resync
    from spark_job.worker.wiring import build_pipeline

    pipeline = build_pipeline(settings, run_id="plan")
    plans: list[PlanResult] = []
    codes: list[Exit] = []
    for table in tables:
        try:
            plans.append(describe_plan(plan_with_resync(pipeline.planner, table, scan_truncations=True)))
            if _is_blocked(plans[-1]):
                print_error(_prefix_name(table, with_table_name(plans[-1].refused or "", table.name)))
                codes.append(Exit.BLOCKED)
        except BadConfig:
            raise
        except IcemirrorError as error:
            print_error(_prefix_name(table, str(error)))
            codes.append(exit_code(error))
            if as_json:
                print_json_error(table.name, error)
            continue
        if as_json:
            print_json(plans[-1].model_dump(mode="json"))
    if not as_json and plans:
        print_result(render_plans(plans, out.width))
    return worst_exit(codes)


def _is_blocked(result: PlanResult) -> bool:
    """Return whether there are events to merge, and a merge refuses them."""
    return result.refused is not None and result.slices > 0


def _prefix_name(table: TableSettings, message: str) -> str:
    """Return the message prefixed with the mirror's name, unless it starts with a name of the table."""
    return message if message.startswith(f"{table.changelog_id}: ") else prefix_table(table.name, message)


def _describe_action(result: PlanResult) -> Text:
    changes = "; ".join(result.schema_changes)
    if _is_blocked(result):  # stderr has the reason
        return Text(f"blocked: {changes}" if changes else "blocked", style="red")
    if result.refused is not None:
        reason = changes or with_table_name(result.refused, result.table)
        return Text(f"nothing; the next events will be blocked: {reason}", style="yellow")
    if result.rebuilds_mirror:
        return Text("rebuilds the mirror: the changelog was recreated or lost its history")
    if changes and result.slices:
        return Text(f"merges, and changes the mirror: {changes}")
    if changes:
        return Text(f"nothing; the next events will change the mirror: {changes}")
    if result.fills_mirror:
        return Text("fills the empty mirror")
    return Text("creates the mirror" if result.creates_mirror else "merges" if result.slices else "nothing")


def render_plans(plans: list[PlanResult], width: int) -> Table | Group:
    """Return the plans as a table."""
    columns = [
        Column("table", [Text(result.table) for result in plans]),
        Column("action", [_describe_action(result) for result in plans], wraps=True),
        count_column("snapshots", [result.snapshots for result in plans], drop_rank=2),
        count_column("files", [result.files for result in plans], drop_rank=3),
        Column("bytes", [Text(decimal(result.bytes)) for result in plans], "right", drop_rank=1),
        count_column("events", [result.events for result in plans]),
        count_column("commits", [result.slices for result in plans], drop_rank=4),
    ]
    return fit_columns(columns, width)
