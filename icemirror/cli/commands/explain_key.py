"""`icemirror explain-key`: the location of a key's row, the events that made it, and the effect of each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click
from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.setup.pipeline import open_pipeline
from icemirror.cli.setup.tables import select_job_table, table_option
from icemirror.cli.terminal.console import out, print_json, printable, report_error
from icemirror.cli.terminal.progress import show_table_progress
from icemirror.cli.terminal.text import examples, format_count
from icemirror.errors import Exit, IcemirrorError

if TYPE_CHECKING:
    from icemirror.settings import Settings, TableSettings
    from spark_job.commands.explain.report import EventReport, ExplainReport, RejectedReport

_MAX_TEXT_CHARACTERS = 120
_STATES = {
    "present": ("present", "bold green"),
    "flagged": ("present, flagged as deleted", "bold yellow"),
    "deleted": ("deleted", "bold yellow"),
    "missing": ("missing: the changelog requires a row", "bold red"),
    "never-seen": ("not in the mirror", "bold yellow"),
    "unknown": ("unknown: a file that may contain it is unreadable", "bold red"),
    "no-mirror": ("the mirror does not exist yet", "bold yellow"),
}
_WRITERS = {
    "merge": "a merge",
    "compaction": "a compaction",
    "another-writer": "another writer",
    "unknown": "unknown: the snapshot has expired",
}
_STYLES = {"made-row": "bold green", "deleted-row": "bold red", "waiting": "yellow"}


@click.command(
    "explain-key",
    epilog=examples(
        "icemirror explain-key -t shop.orders --key 42",
        'icemirror explain-key -t shop.orders --key \'{"id": 42, "sku": "a-1"}\'',
    ),
)
@config_option
@table_option
@click.option(
    "-k",
    "--key",
    required=True,
    metavar="JSON",
    help="""An object of the key columns, '{"id": 42}'; or the bare value of a single one: 42, '"text"'.""",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def explain_key(config: str | None, name: str, key: str, as_json: bool) -> int:
    """Explain why a row of a mirror is as it is, or why it is missing. Changes nothing; exits with 5 on a difference.

    \b
    the row      present, deleted or not in the mirror; its data file and position
                 in the index, whether that row exists, and its values
    the events   all events of the key that the changelog still contains, in their
                 order: operation, sequence, snapshot, file and row, and the
                 effect of each: wrote the row, replaced, late, not merged yet

    Needs no Spark, and opens only files that may contain the key, by their bounds and partitions. Give dates,
    timestamps, uuids, decimals and bytes (hexadecimal) as text.
    """
    from spark_job.commands.explain.requested_key import BadKey

    settings = load_configuration(config)
    table = select_job_table(settings, name)
    try:
        report = _explain(settings, table, key, as_json=as_json)
    except BadKey as error:
        raise click.BadParameter(str(error), param_hint="'--key'") from None
    except IcemirrorError as error:
        return report_error(table.name, error, as_json=as_json)
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        out.print(_render(report), soft_wrap=True)
    if report.findings:
        return Exit.DIFFERENCE
    return Exit.DONE if report.complete else Exit.BLOCKED


def _explain(settings: Settings, table: TableSettings, key: str, *, as_json: bool) -> ExplainReport:
    from spark_job.commands.explain.explain_key import explain_key as explain
    from spark_job.storage.translate_errors import translate_table_errors

    pipeline = open_pipeline(settings, "explain-key", as_json=as_json)
    with show_table_progress(table.name) as show, translate_table_errors(table.name):
        return explain(pipeline, table, key, show)


def _render(report: ExplainReport) -> Group:
    word, style = _STATES[report.state.value]
    lines = [Text(f"{report.table}, {_pairs(report.key)}: ").append(word, style=style)]
    lines += _row(report)
    if report.events:
        lines += [Text(), Text("events, oldest first", style="bold")]
    width = len(str(len(report.events)))
    for event in report.events:
        lines += _event(event, width)
    if report.rejected:
        lines += [Text(), Text("rejected events, which do not count", style="bold")]
    for rejected in report.rejected:
        lines += _rejected(rejected)
    if report.findings or report.unreadable or report.notes:
        lines.append(Text())
    for finding in report.findings:
        lines.append(Text(f"{finding.kind.value}", style="red").append(f"  {finding.what}", style="default"))
    if report.findings:
        lines.append(Text(_advice(report.table), style="dim"))
    lines += [
        Text(f"unreadable: {problem.path}: {problem.what}", style="red") for problem in report.unreadable
    ]
    lines += [Text(f"note: {note}", style="yellow") for note in report.notes]
    read = report.read
    files_read = f"read {read.changelog_files:,} of {format_count(read.of_changelog_files, 'changelog file')}"
    files_read += (
        f", {read.data_files:,} of {format_count(read.of_data_files, 'data file')}; {report.seconds:.2f} s"
    )
    return Group(*lines, Text(), Text(files_read, style="dim"))


def _advice(table: str) -> str:
    return (
        f"`icemirror verify -t {table} --deep` checks all keys; "
        f"`icemirror replay -t {table} --full` rebuilds rows and index from the changelog"
    )


def _row(report: ExplainReport) -> Iterator[Text]:
    row, index = report.row, report.index
    if row is not None:
        yield _fact("row", f"{row.position} of {row.file}")
        snapshot_clause = f", snapshot {row.snapshot_id} of {row.committed_at}" if row.committed_at else ""
        yield _fact("written by", _WRITERS[row.written_by.value] + snapshot_clause)
    if index is not None:
        entry_texts = {
            "row": "has the row",
            "tombstone": "has a tombstone",
            "nothing": "does not contain the key",
        }
        text = entry_texts[index.says]
        if index.file is not None and (
            row is None or (index.file, index.position) != (row.file, row.position)
        ):
            text += f" as row {index.position} of {index.file}"
        if index.sequence is not None:
            text += f", with sequence {', '.join(map(str, index.sequence.values()))} of commit {index.commit}"
        yield _fact("index", text)
    if row is not None and row.values is not None:
        name_width = max((cell_len(name) for name in row.values), default=0)
        for position, (name, value) in enumerate(row.values.items()):
            padding = " " * (name_width - cell_len(name))
            yield _fact("" if position else "values", f"{name}{padding}  {_short(value)}")


def _fact(name: str, value: str) -> Text:
    return Text(f"  {name:12}", style="bold").append(value, style="not bold")


def _event(event: EventReport, width: int) -> Iterator[Text]:
    margin = " " * (width + 4)
    style = _STYLES.get(event.fate.value, "default")
    sequence = ", ".join(map(str, event.sequence.values()))
    yield Text(f"  {event.number:{width}}  {event.operation}  {sequence}  ").append(event.words, style=style)
    when = f" of {event.committed_at}" if event.committed_at else ", which has expired"
    location = f"{margin}snapshot {event.snapshot_id}{when}, row {event.position} of {event.file}"
    yield Text(location, style="dim")
    if event.values is not None:
        yield Text(f"{margin}{_pairs(event.values)}", style="dim")


def _rejected(event: RejectedReport) -> Iterator[Text]:
    yield Text(f"  {event.words}", style="yellow")
    when = f" of {event.committed_at}" if event.committed_at else ", which has expired"
    yield Text(f"    snapshot {event.snapshot_id}{when}, row {event.position} of {event.file}", style="dim")


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in values.items())


def _short(value: object) -> str:
    """Return the value as JSON, shortened, with control characters escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return printable(text if len(text) <= _MAX_TEXT_CHARACTERS else f"{text[:_MAX_TEXT_CHARACTERS]}…")
