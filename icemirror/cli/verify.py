"""`icemirror verify`: the mirror against its changelog, the index against the mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.text import Text

from icemirror.cli.console import config_option, err, load, out, print_error, print_json, print_json_error
from icemirror.cli.counted import counted
from icemirror.cli.table_progress import table_progress
from icemirror.errors import Exit, IcemirrorError, exit_code

if TYPE_CHECKING:
    from icemirror.settings import Settings, TableSettings
    from spark_job.verify.check import Options
    from spark_job.verify.findings import Finding, VerifyReport


_NOT_LOOKED_AT = (
    "not looked at: whether rows are those that the changelog tells of, all but the samples of rows and of index "
    "entries, checksums of the index's blocks. --deep looks at all of it"
)


@click.command()
@config_option
@click.option("-t", "--table", "name", required=True, metavar="T", help="The table to verify.")
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    metavar="N",
    help="So many random rows, and entries of the index.  [default: 1000]",
)
@click.option("--deep", is_flag=True, help="Every checksum, every row, every column.")
@click.option(
    "--allow-foreign", is_flag=True, help="Rows that the changelog never told of are no difference."
)
@click.option("--show-keys", is_flag=True, help="Show the keys of the rows that differ.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def verify(
    config: str | None,
    name: str,
    sample: int | None,
    deep: bool,
    allow_foreign: bool,
    show_keys: bool,
    as_json: bool,
) -> int:
    """Compare a mirror with its changelog, and its key index with it. Changes nothing; ends with 5 at a difference.

    \b
    by default   the live rows of each data file as table and index count them, every segment and its
                 directory's checksum, the root, the cursor's place in the changelog, and a sample:
                 random rows in the index, random entries of the index among the rows; and of rows that
                 others wrote since the last merge, keys that are twice there. Not whether a row is the
                 one that the changelog tells of
    --deep       every checksum; every live row has one entry and every entry its row; and the rows are,
                 in all columns, those of the latest event of each key up to the cursor, computed from
                 all of the changelog's history without the index (on Spark where that is much)

    Values of rows and keys are never shown, unless --show-keys asks for keys.
    """
    if deep and sample is not None:
        raise click.UsageError("--sample and --deep exclude each other: --deep looks at every row.")
    from icemirror.cli.plan import choose_tables
    from spark_job.verify.check import Options

    settings = load(config)
    (table,) = choose_tables(settings, (name,))
    options = Options(1000 if sample is None else sample, deep, show_keys, allow_foreign)
    try:
        report = _verify(settings, table, options, as_json=as_json)
    except IcemirrorError as error:
        if as_json:
            print_json_error(table.name, error)
        print_error(str(error))
        return exit_code(error)
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        out.print(_render(report), soft_wrap=True)
    return Exit.DONE if report.equal else Exit.DIFFERENCE


def _verify(settings: Settings, table: TableSettings, options: Options, *, as_json: bool) -> VerifyReport:
    from icemirror.telemetry.configured import start_logs
    from spark_job.iceberg.failures import named_for
    from spark_job.verify.check import verify_table
    from spark_job.wiring import build_pipeline

    start_logs(settings, quiet=err.is_terminal and not as_json)
    pipeline = build_pipeline(settings, run_id="verify")
    with table_progress(table.name) as show, named_for(table.name):
        return verify_table(pipeline, table, options, show)


def _render(report: VerifyReport) -> Group:
    checked = report.checked
    looked = f"{counted(checked.data_files, 'data file')}, {counted(checked.segments, 'segment')}"
    entries = f"{checked.entries:,} index entr{'y' if checked.entries == 1 else 'ies'}"
    counts = f"{counted(checked.rows, 'row')} and {entries}"
    looked += f", {counts}" if report.mode == "deep" else f"; samples: {counts} drawn"
    if checked.events:
        looked += f" against {counted(checked.events, 'event')}"
    right = "index and rows agree" if checked.rows or checked.entries else "counts agree"
    right = "equal" if report.mode == "deep" else right
    verdict = Text(right, style="bold green") if report.equal else Text("different", style="bold red")
    lines = [
        Text(f"{report.table}: ")
        .append_text(verdict)
        .append(f"  ({looked}; {report.seconds:.2f} s)", style="dim")
    ]
    for found in report.findings:
        lines += _explain(found)
    lines += [Text(f"note: {note}", style="yellow") for note in report.notes]
    if report.mode != "deep":
        lines.append(Text(_NOT_LOOKED_AT, style="dim"))
    return Group(*lines)


def _explain(found: Finding) -> list[Text]:
    from spark_job.verify.findings import MEANING

    head = Text(f"  {found.kind.value}", style="red").append(
        f"  {found.count:,}  {MEANING[found.kind]}", style="default"
    )
    keys = found.keys or ("",) * len(found.places)
    places = [
        Text(f"      {place}" + (f"  key {key}" if key else ""), style="dim")
        for place, key in zip(found.places, keys, strict=True)
    ]
    if found.count > len(found.places):
        places.append(Text(f"      and {found.count - len(found.places):,} more", style="dim"))
    return [head, *places]
