"""`icemirror adopt`: makes an existing Iceberg table the mirror."""

from __future__ import annotations

import re
import time
import uuid
from typing import TYPE_CHECKING, Any

import click
from rich.filesize import decimal
from rich.text import Text

from icemirror.cli.console import config_option, err, load, out, print_error, print_json, print_json_error
from icemirror.cli.fitting import Column, fit
from icemirror.errors import Exit, IcemirrorError, exit_code

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from icemirror.settings import Settings, TableSettings
    from spark_job.adopt.adopt import Adopted


class MergedUpTo(click.ParamType[str]):
    """A snapshot id, `head` or `none`."""

    name = "merged-up-to"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The value, if it is one of these."""
        if not re.fullmatch(r"head|none|\d+", value):
            self.fail(f"{value!r} is neither a snapshot id nor head nor none.", param, ctx)
        return value


@click.command()
@config_option
@click.option("-t", "--table", "name", required=True, metavar="T", help="The table to adopt.")
@click.option(
    "--merged-up-to",
    type=MergedUpTo(),
    default="none",
    metavar="SNAPSHOT|head|none",
    help="How much of the changelog the table holds already.  [default: none]",
)
@click.option("--dry-run", is_flag=True, help="Check everything, rows included; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def adopt(config: str | None, name: str, merged_up_to: str, dry_run: bool, as_json: bool) -> int:
    """Make an existing Iceberg table with the right key the mirror of its changelog.

    Checks columns and key, reads the key of every row into a new index, and makes it all so in one commit on the
    table's head. No data file is changed. What cannot be a mirror is refused by name: other columns than the
    changelog's, a key that is NULL or twice there, equality deletes, format version 1, files that are not Parquet.

    \b
    --merged-up-to none      nothing is known of what the table holds: the next merge goes through
                             the whole changelog, and every event applies
    --merged-up-to head      the table holds all of the changelog as it is now
    --merged-up-to SNAPSHOT  the table holds the changelog up to this snapshot of the changelog;
                             merging goes on behind it

    Where the key is not the table's identifier yet (identifier fields), it becomes so, and its columns required.
    """
    from icemirror.cli.plan import choose_tables

    settings = load(config)
    (table,) = choose_tables(settings, (name,))
    began = time.perf_counter()
    try:
        adopted = _adopt(settings, table, merged_up_to, dry_run=dry_run, as_json=as_json)
    except IcemirrorError as error:
        if as_json:
            print_json_error(table.name, error)
        print_error(str(error))
        return exit_code(error)
    told = _describe(table, adopted, time.perf_counter() - began)
    if as_json:
        print_json(told)
    else:
        out.print(_render(told, out.width))
    return Exit.DONE


def _adopt(
    settings: Settings, table: TableSettings, merged_up_to: str, *, dry_run: bool, as_json: bool
) -> Adopted:
    from icemirror.telemetry.configured import start_logs
    from spark_job.adopt.adopt import adopt_table
    from spark_job.iceberg.failures import named_for
    from spark_job.wiring import build_pipeline

    start_logs(settings, quiet=err.is_terminal and not as_json)
    pipeline = build_pipeline(settings, run_id=f"adopt-{uuid.uuid4()}")
    with err.status(Text(f"{table.name}: reading the key of every row")), named_for(table.name):
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


def _render(told: dict[str, Any], width: int) -> Table | Group:
    sources = told["cursor"]["sources"]
    outcome = Text("adopted", style="green") if told["snapshot_id"] else Text("could be adopted")
    index = "" if told["index_bytes"] is None else decimal(told["index_bytes"])
    up_to = str(sources[0]["snapshot_id"]) if sources else "nothing"
    columns = [
        Column("table", [Text(told["table"])]),
        Column("outcome", [outcome]),
        Column("live rows", [Text(f"{told['live_rows']:,}")], "right"),
        Column("data files", [Text(f"{told['data_files']:,}")], "right", spare=2),
        Column("index", [Text(index)], "right", spare=3),
        Column("merged up to", [Text(up_to)], "right"),
        Column("seconds", [Text(f"{told['seconds']:.2f}")], "right", spare=1),
    ]
    return fit(columns, width)
