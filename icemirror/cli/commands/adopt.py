"""`icemirror adopt`: makes an existing Iceberg table the mirror of its changelog."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import click
from rich.filesize import decimal
from rich.text import Text

from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.setup.pipeline import open_pipeline
from icemirror.cli.setup.tables import select_job_table, table_option
from icemirror.cli.terminal.columns import Column, fit_columns
from icemirror.cli.terminal.console import err, out, print_json, print_result, report_error
from icemirror.cli.terminal.text import examples
from icemirror.errors import Exit, IcemirrorError

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from icemirror.settings import Settings, TableSettings
    from spark_job.commands.adopt.adopt_table import Adopted


class MergedUpTo(click.ParamType[str]):
    """A snapshot id, `head` or `none`."""

    name = "merged-up-to"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value if it is valid."""
        if not re.fullmatch(r"head|none|\d+", value):
            self.fail(f"{value!r} is neither a snapshot id nor head nor none.", param, ctx)
        return value


@click.command(
    epilog=examples(
        "icemirror adopt -t shop.orders --dry-run", "icemirror adopt -t shop.orders --merged-up-to head"
    )
)
@config_option
@table_option
@click.option(
    "--merged-up-to",
    type=MergedUpTo(),
    default="none",
    metavar="SNAPSHOT|head|none",
    help="How much of the changelog the table already contains.  [default: none]",
)
@click.option("--dry-run", is_flag=True, help="Check everything, including rows; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def adopt(config: str | None, name: str, merged_up_to: str, dry_run: bool, as_json: bool) -> int:
    """Make an existing Iceberg table with the right key the mirror of its changelog.

    Checks columns and key, indexes the key of every row, and commits index and cursor on the table's head. No data
    file changes. A table that cannot be a mirror is refused with a specific error: columns that differ from the
    changelog's, NULL or duplicate keys, equality deletes, format version 1, files other than Parquet.

    \b
    --merged-up-to none      the next merge applies the whole changelog (default)
    --merged-up-to head      the table contains the whole changelog up to its head
    --merged-up-to SNAPSHOT  the table contains the changelog up to this changelog
                             snapshot; merging continues after it

    If the table has no identifier fields, adopt sets them to the key and makes the key columns required.
    """
    settings = load_configuration(config)
    table = select_job_table(settings, name)
    began = time.perf_counter()
    try:
        adopted = _adopt(settings, table, merged_up_to, dry_run=dry_run, as_json=as_json)
    except IcemirrorError as error:
        return report_error(table.name, error, as_json=as_json)
    result = _describe(table, adopted, time.perf_counter() - began)
    if as_json:
        print_json(result)
    else:
        print_result(_render(result, out.width))
    return Exit.DONE


def _adopt(
    settings: Settings, table: TableSettings, merged_up_to: str, *, dry_run: bool, as_json: bool
) -> Adopted:
    from spark_job.commands.adopt.adopt_table import adopt_table
    from spark_job.storage.translate_errors import translate_table_errors

    pipeline = open_pipeline(settings, "adopt", as_json=as_json, commits=True)
    with err.status(Text(f"{table.name}: reading the key of every row")), translate_table_errors(table.name):
        return adopt_table(pipeline, table, merged_up_to, dry_run=dry_run)


# Any: JSON.
def _describe(table: TableSettings, adopted: Adopted, seconds: float) -> dict[str, Any]:
    candidate = adopted.candidate
    return {
        "table": table.name,
        "outcome": "checked" if adopted.snapshot_id is None else "adopted",
        "live_rows": candidate.live_rows,
        "data_files": len(candidate.live),
        "sets_identifier_fields": candidate.schema is not None,
        "cursor": candidate.cursor.model_dump(mode="json"),
        "snapshot_id": adopted.snapshot_id,
        "index_bytes": adopted.index_bytes,
        "seconds": round(seconds, 4),
    }


def _render(result: dict[str, Any], width: int) -> Table | Group:
    sources = result["cursor"]["sources"]
    outcome = Text("adopted", style="green") if result["snapshot_id"] else Text("could be adopted")
    index = "" if result["index_bytes"] is None else decimal(result["index_bytes"])
    up_to = str(sources[0]["snapshot_id"]) if sources else "nothing"
    columns = [
        Column("table", [Text(result["table"])]),
        Column("outcome", [outcome]),
        Column("live rows", [Text(f"{result['live_rows']:,}")], "right"),
        Column("data files", [Text(f"{result['data_files']:,}")], "right", drop_rank=2),
        Column("index", [Text(index)], "right", drop_rank=3),
        Column("merged up to", [Text(up_to)], "right"),
        Column("seconds", [Text(f"{result['seconds']:.2f}")], "right", drop_rank=1),
    ]
    return fit_columns(columns, width)
