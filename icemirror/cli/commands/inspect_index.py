"""`icemirror inspect-index`: the runs, segments and sizes of a mirror's key index."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import click
from rich.console import Group
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.setup.tables import select_job_table, table_option
from icemirror.cli.terminal.columns import Column, fit_columns
from icemirror.cli.terminal.console import out, print_json, print_result
from icemirror.cli.terminal.text import examples, format_count
from icemirror.errors import NO_MIRROR_YET, Exit, Invalid

if TYPE_CHECKING:
    from spark_job.commands.inspect_index import IndexReport, IndexRunReport

_BAR_CELLS = 24


@click.command("inspect-index", epilog=examples("icemirror inspect-index -t shop.orders"))
@config_option
@table_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def inspect_index(config: str | None, name: str, as_json: bool) -> int:
    """Show the key index of a mirror: runs and their tiers, segments, sizes, bytes per key, and unreadable files.

    Reads only the root and the segments' directories; changes nothing and needs no Spark. Keys are shown as the index
    stores them, in hexadecimal. Exits with 3 if a file is unreadable; the next merge that needs it rebuilds it.
    """
    report = _inspect(config, name)
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        print_result(_render(report, out.width))
    return Exit.BLOCKED if report.unreadable else Exit.DONE


def _inspect(config: str | None, name: str) -> IndexReport:
    from spark_job.commands.inspect_index import inspect_index as inspect
    from spark_job.iceberg.catalogs import Catalogs
    from spark_job.iceberg.mirror import read_mirror
    from spark_job.storage.translate_errors import translate_table_errors

    settings = load_configuration(config)
    table = select_job_table(settings, name)
    loaded = Catalogs(settings).load_mirror(table)
    if loaded is None:
        raise Invalid(f"{table.name}: {NO_MIRROR_YET}.")
    with translate_table_errors(table.name):
        return inspect(table.name, read_mirror(loaded, table.name))


def _render(report: IndexReport, width: int) -> Group:
    blocks: list[Table | Text | Group] = [_facts(report)]
    if report.runs:
        blocks += [Text(), _runs(report, width)]
    if report.unreadable:
        blocks.append(Text())
    blocks += [
        Text(f"unreadable: {problem.path}: {problem.what}", style="red") for problem in report.unreadable
    ]
    return Group(*blocks)


def _facts(report: IndexReport) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    freshness = Text("current", style="green")
    if report.head is None:
        freshness = Text("the mirror is empty", style="dim")
    elif not report.of_head:
        freshness = Text(
            f"foreign writes since (head {report.head}); the next merge indexes them", style="yellow"
        )
    encoding = report.encoding or "no entries"
    if report.hash_bits:
        encoding += f", {report.hash_bits} bits"
    rows = "unknown" if report.live_rows is None else f"{report.live_rows:,}"
    per_row = f", {report.bytes_per_row:g} bytes per row" if report.bytes_per_row is not None else ""
    removed = f", {report.files_gone:,} more removed" if report.files_gone else ""
    for name, value in (
        ("table", report.table),
        ("root", report.root or "none"),
        ("epoch", f"{report.epoch:,}"),
        ("snapshot", Text(f"{report.snapshot_id or 'none'}  ").append_text(freshness)),
        ("keys", encoding),
        ("live rows", f"{rows} in {format_count(report.files, 'data file')}{removed}"),
        ("entries", f"{report.entries:,}, {report.tombstones:,} of them tombstones"),
        ("size", f"{decimal(report.bytes)}, {report.bytes_per_key:g} bytes per key{per_row}"),
        ("greatest order", _order(report.greatest)),
    ):
        table.add_row(name, value)
    return table


def _runs(report: IndexReport, width: int) -> Table | Group:
    largest = max(max(run.bytes for run in report.runs), 1)
    bars = [Text("█" * max(1, round(_BAR_CELLS * run.bytes / largest)), style="cyan") for run in report.runs]
    merging = ["" if run.merging_into is None else f"→ {run.merging_into}" for run in report.runs]

    def column(
        name: str,
        cell: Callable[[IndexRunReport], str],
        justify: Literal["left", "right"] = "right",
        drop_rank: int = 0,
    ) -> Column:
        return Column(name, [Text(cell(run)) for run in report.runs], justify, drop_rank)

    columns = [
        column("run", lambda run: f"{run.run}"),
        column("tier", lambda run: f"{run.tier}"),
        column("segments", lambda run: f"{run.segments:,}"),
        column("entries", lambda run: f"{run.entries:,}"),
        column("tombstones", lambda run: f"{run.tombstones:,}"),
        column("size", lambda run: decimal(run.bytes)),
        Column("", bars, drop_rank=6),
        column("bytes/key", lambda run: f"{run.bytes_per_key:g}"),
        column("layout", lambda run: "+".join(run.layouts), "left", drop_rank=4),
        column("first key", lambda run: _short(run.first_key), "left", drop_rank=5),
        column("last key", lambda run: _short(run.last_key), "left", drop_rank=5),
        column("files", lambda run: f"{run.files:,}", drop_rank=1),
        column("age", lambda run: _age(run.written_at), "left", drop_rank=2),
    ]
    if any(merging):
        columns.append(Column("merging", [Text(text) for text in merging], drop_rank=3))
    return fit_columns(columns, width)


def _order(order: tuple[int, ...] | None) -> str:
    return "none" if order is None else "/".join(f"{value:x}" for value in order)


def _short(code: str) -> str:
    return code if len(code) <= 16 else f"{code[:15]}…"


def _age(written_at: int) -> str:
    if not written_at:
        return ""
    seconds = max(0.0, time.time() - written_at / 1000)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
