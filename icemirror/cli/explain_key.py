"""`icemirror explain-key`: where the row of a key is, which events made it, and why others lost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click
from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from icemirror.cli.console import (
    config_option,
    err,
    load,
    out,
    print_error,
    print_json,
    print_json_error,
    printable,
)
from icemirror.cli.counted import counted
from icemirror.cli.table_progress import table_progress
from icemirror.errors import Exit, IcemirrorError, exit_code

if TYPE_CHECKING:
    from icemirror.settings import Settings, TableSettings
    from spark_job.explain.report import EventReport, ExplainReport, RejectedReport

_MOST_TEXT = 120
_STATES = {
    "present": ("present", "bold green"),
    "flagged": ("there, flagged as deleted", "bold yellow"),
    "deleted": ("deleted", "bold yellow"),
    "missing": ("missing: by the changelog there must be a row", "bold red"),
    "never-seen": ("not in the mirror", "bold yellow"),
    "unknown": ("unknown: a file that may hold it cannot be read", "bold red"),
    "no-mirror": ("there is no mirror yet", "bold yellow"),
}
_WRITERS = {
    "merge": "a merge",
    "compaction": "icemirror, which put small files together",
    "another-writer": "another writer",
    "unknown": "unknown: the snapshot has expired",
}
_STYLES = {"made-row": "bold green", "deleted-row": "bold red", "waiting": "yellow"}


@click.command("explain-key")
@config_option
@click.option("-t", "--table", "name", required=True, metavar="T", help="The table to ask.")
@click.option(
    "-k",
    "--key",
    required=True,
    metavar="JSON",
    help="""An object of the key columns, '{"id": 42}'; or the bare value of a single one: 42, '"text"'.""",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def explain_key(config: str | None, name: str, key: str, as_json: bool) -> int:
    """Tell why a row of a mirror is as it is, or why there is none. Changes nothing; ends with 5 at a difference.

    \b
    the row      present, deleted or never seen; its data file and position by the index, and whether
                 it is really there; its values
    the events   all of the key that the changelog still holds, in the order of events: operation,
                 sequence, snapshot, file and row, and what became of each: made the row, overtaken,
                 came late, not merged yet

    Needs no Spark, and opens only files that may hold the key, by their bounds and partitions. Dates, timestamps,
    uuids, decimals and bytes (in hexadecimal) are given as text.
    """
    from icemirror.cli.plan import choose_tables
    from spark_job.explain.asked_key import BadKey

    settings = load(config)
    (table,) = choose_tables(settings, (name,))
    try:
        report = _explain(settings, table, key, as_json=as_json)
    except BadKey as error:
        raise click.BadParameter(str(error), param_hint="'--key'") from None
    except IcemirrorError as error:
        if as_json:
            print_json_error(table.name, error)
        print_error(str(error))
        return exit_code(error)
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        out.print(_render(report), soft_wrap=True)
    if report.findings:
        return Exit.DIFFERENCE
    return Exit.DONE if report.complete else Exit.NEEDS_PERSON


def _explain(settings: Settings, table: TableSettings, key: str, *, as_json: bool) -> ExplainReport:
    from icemirror.telemetry.configured import start_logs
    from spark_job.explain.explain import explain_key as explain
    from spark_job.iceberg.failures import named_for
    from spark_job.wiring import build_pipeline

    start_logs(settings, quiet=err.is_terminal and not as_json)
    pipeline = build_pipeline(settings, run_id="explain-key")
    with table_progress(table.name) as show, named_for(table.name):
        return explain(pipeline, table, key, show)


def _render(report: ExplainReport) -> Group:
    word, style = _STATES[report.state.value]
    lines = [Text(f"{report.table}, {_pairs(report.key)}: ").append(word, style=style)]
    lines += _row(report)
    if report.events:
        lines += [Text(), Text("events, the oldest first", style="bold")]
    width = len(str(len(report.events)))
    for event in report.events:
        lines += _event(event, width)
    if report.rejected:
        lines += [Text(), Text("rejected events, which do not count", style="bold")]
    for one in report.rejected:
        lines += _rejected(one)
    if report.findings or report.unreadable or report.notes:
        lines.append(Text())
    for found in report.findings:
        lines.append(Text(f"{found.kind.value}", style="red").append(f"  {found.what}", style="default"))
    if report.findings:
        lines.append(Text(_mend(report.table), style="dim"))
    lines += [Text(f"unreadable: {one.path}: {one.what}", style="red") for one in report.unreadable]
    lines += [Text(f"note: {note}", style="yellow") for note in report.notes]
    read = report.read
    looked = f"read {read.changelog_files:,} of {counted(read.of_changelog_files, 'changelog file')}"
    looked += f", {read.data_files:,} of {counted(read.of_data_files, 'data file')}; {report.seconds:.2f} s"
    return Group(*lines, Text(), Text(looked, style="dim"))


def _mend(table: str) -> str:
    return (
        f"`icemirror verify -t {table} --deep` tells whether other keys differ as well; "
        f"`icemirror replay -t {table} --full` rebuilds rows and index from the changelog"
    )


def _row(report: ExplainReport) -> Iterator[Text]:
    row, index = report.row, report.index
    if row is not None:
        yield _fact("row", f"{row.position} of {row.file}")
        by = f", snapshot {row.snapshot_id} of {row.committed_at}" if row.committed_at else ""
        yield _fact("written by", _WRITERS[row.written_by.value] + by)
    if index is not None:
        says = {"row": "has the row", "tombstone": "has a tombstone", "nothing": "knows nothing of the key"}
        text = says[index.says]
        if index.file is not None and (
            row is None or (index.file, index.position) != (row.file, row.position)
        ):
            text += f" as row {index.position} of {index.file}"
        if index.sequence is not None:
            text += f", with sequence {', '.join(map(str, index.sequence.values()))} of commit {index.commit}"
        yield _fact("index", text)
    if row is not None and row.values is not None:
        wide = max((cell_len(name) for name in row.values), default=0)
        for at, (name, value) in enumerate(row.values.items()):
            room = " " * (wide - cell_len(name))
            yield _fact("" if at else "values", f"{name}{room}  {_short(value)}")


def _fact(name: str, value: str) -> Text:
    return Text(f"  {name:12}", style="bold").append(value, style="not bold")


def _event(event: EventReport, width: int) -> Iterator[Text]:
    margin = " " * (width + 4)
    style = _STYLES.get(event.fate.value, "default")
    sequence = ", ".join(map(str, event.sequence.values()))
    yield Text(f"  {event.number:{width}}  {event.operation}  {sequence}  ").append(event.words, style=style)
    when = f" of {event.committed_at}" if event.committed_at else ", which has expired"
    place = f"{margin}snapshot {event.snapshot_id}{when}, row {event.position} of {event.file}"
    yield Text(place, style="dim")
    if event.values is not None:
        yield Text(f"{margin}{_pairs(event.values)}", style="dim")


def _rejected(event: RejectedReport) -> Iterator[Text]:
    yield Text(f"  {event.words}", style="yellow")
    when = f" of {event.committed_at}" if event.committed_at else ", which has expired"
    yield Text(f"    snapshot {event.snapshot_id}{when}, row {event.position} of {event.file}", style="dim")


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in values.items())


def _short(value: object) -> str:
    """As JSON, cut where it is long, and without anything that a terminal would obey."""
    text = json.dumps(value, ensure_ascii=False)
    shown = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
    return printable(shown)
