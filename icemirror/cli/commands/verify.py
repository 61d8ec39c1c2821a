"""`icemirror verify`: compares the mirror with its changelog, and the index with the mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.text import Text

from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.setup.pipeline import open_pipeline
from icemirror.cli.setup.tables import select_job_table, table_option
from icemirror.cli.terminal.console import out, print_json, report_error
from icemirror.cli.terminal.progress import show_table_progress
from icemirror.cli.terminal.text import examples, format_count
from icemirror.errors import Exit, IcemirrorError

if TYPE_CHECKING:
    from icemirror.settings import Settings, TableSettings
    from spark_job.commands.verify.verify_report import VerifyFinding, VerifyReport
    from spark_job.commands.verify.verify_table import VerifyOptions


_NOT_CHECKED = (
    "not checked: rows against the changelog, rows and index entries outside the samples, checksums of index blocks. "
    "--deep checks all of it"
)


@click.command(
    epilog=examples("icemirror verify -t shop.orders", "icemirror verify -t shop.orders --deep --show-keys")
)
@config_option
@table_option
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    metavar="N",
    help="Number of random rows, and of random index entries.  [default: 1000]",
)
@click.option("--deep", is_flag=True, help="Every checksum, every row, every column.")
@click.option(
    "--allow-foreign",
    is_flag=True,
    help="Rows of keys that the changelog never contained are not a difference.",
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
    """Compare a mirror with its changelog and its key index. Changes nothing; exits with 5 on a difference.

    \b
    By default:
      - live rows per data file, in table and index
      - the root, and every segment with the checksum of its directory
      - the position of the cursor in the changelog
      - random rows in the index, and random index entries in the rows
      - duplicate keys among rows of foreign writes since the last merge
      - not: rows against the changelog

    \b
    With --deep:
      - every checksum
      - every live row has one index entry, and every entry has one row
      - every column of every row equals the latest event of its key up to the
        cursor, computed from the whole changelog (on Spark for large tables)

    Values of rows are never shown; keys only with --show-keys.
    """
    if deep and sample is not None:
        raise click.UsageError("--sample and --deep exclude each other: --deep checks every row.")
    from spark_job.commands.verify.verify_table import VerifyOptions

    settings = load_configuration(config)
    table = select_job_table(settings, name)
    options = VerifyOptions(1000 if sample is None else sample, deep, show_keys, allow_foreign)
    try:
        report = _verify(settings, table, options, as_json=as_json)
    except IcemirrorError as error:
        return report_error(table.name, error, as_json=as_json)
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        out.print(_render(report), soft_wrap=True)
    return Exit.DONE if report.equal else Exit.DIFFERENCE


def _verify(
    settings: Settings, table: TableSettings, options: VerifyOptions, *, as_json: bool
) -> VerifyReport:
    from spark_job.commands.verify.verify_table import verify_table
    from spark_job.storage.translate_errors import translate_table_errors

    pipeline = open_pipeline(settings, "verify", as_json=as_json)
    with show_table_progress(table.name) as show, translate_table_errors(table.name):
        return verify_table(pipeline, table, options, show)


def _render(report: VerifyReport) -> Group:
    checked = report.checked
    scope = f"{format_count(checked.data_files, 'data file')}, {format_count(checked.segments, 'segment')}"
    entries = f"{checked.entries:,} index entr{'y' if checked.entries == 1 else 'ies'}"
    counts = f"{format_count(checked.rows, 'row')} and {entries}"
    scope += f", {counts}" if report.mode == "deep" else f"; sampled: {counts}"
    if checked.events:
        scope += f" against {format_count(checked.events, 'event')}"
    if report.mode == "deep":
        equal_text = "equal"
    else:
        equal_text = "index and rows agree" if checked.rows or checked.entries else "counts agree"
    verdict = Text(equal_text, style="bold green") if report.equal else Text("different", style="bold red")
    lines = [
        Text(f"{report.table}: ")
        .append_text(verdict)
        .append(f"  ({scope}; {report.seconds:.2f} s)", style="dim")
    ]
    for finding in report.findings:
        lines += _explain(finding)
    lines += [Text(f"note: {note}", style="yellow") for note in report.notes]
    if report.mode != "deep":
        lines.append(Text(_NOT_CHECKED, style="dim"))
    return Group(*lines)


def _explain(finding: VerifyFinding) -> list[Text]:
    from spark_job.commands.verify.verify_report import MEANING

    head = Text(f"  {finding.kind.value}", style="red").append(
        f"  {finding.count:,}  {MEANING[finding.kind]}", style="default"
    )
    keys = finding.keys or ("",) * len(finding.places)
    lines = [
        Text(f"      {location}" + (f"  key {key}" if key else ""), style="dim")
        for location, key in zip(finding.places, keys, strict=True)
    ]
    if finding.count > len(finding.places):
        lines.append(Text(f"      and {finding.count - len(finding.places):,} more", style="dim"))
    return [head, *lines]
