"""`icemirror inspect-index`: what the key index of a mirror is made of."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from icemirror.cli.console import config_option, load, out, print_json
from icemirror.errors import Exit, Invalid

if TYPE_CHECKING:
    from spark_job.inspect_index import IndexReport

_BAR = 24


@click.command("inspect-index")
@config_option
@click.option("-t", "--table", "name", required=True, metavar="T", help="The table to look at.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def inspect_index(config: str | None, name: str, as_json: bool) -> int:
    """Show the key index of a mirror: runs and their tiers, segments, sizes, bytes per key, and what is unreadable.

    Reads the root and the segments' directories only; changes nothing and needs no Spark. Keys are shown as the index
    stores them, in hexadecimal. Ends with 3 if a part cannot be read; the next merge rebuilds it.
    """
    report = _inspect(config, name)
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        out.print(_render(report))
    return Exit.NEEDS_PERSON if report.unreadable else Exit.DONE


def _inspect(config: str | None, name: str) -> IndexReport:
    from icemirror.cli.plan import choose_tables
    from spark_job.iceberg.failures import named_for
    from spark_job.iceberg.mirror import read_mirror
    from spark_job.iceberg.tables import Catalogs
    from spark_job.inspect_index import inspect_index as inspect

    settings = load(config)
    (table,) = choose_tables(settings, (name,))
    loaded = Catalogs(settings).load_mirror(table)
    if loaded is None:
        raise Invalid(f"{table.name}: there is no mirror yet. `icemirror merge` makes it.")
    with named_for(table.name):
        return inspect(table.name, read_mirror(loaded, table.name))


def _render(report: IndexReport) -> Group:
    parts: list[Table | Text] = [_facts(report)]
    if report.runs:
        parts += [Text(), _runs(report)]
    if report.unreadable:
        parts.append(Text())
    parts += [Text(f"unreadable: {one.path}: {one.what}", style="red") for one in report.unreadable]
    return Group(*parts)


def _facts(report: IndexReport) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    of_head = Text("of the head", style="green")
    if report.head is None:
        of_head = Text("the mirror is empty", style="dim")
    elif not report.of_head:
        of_head = Text(
            f"others have written since (head {report.head}); the next merge catches up", style="yellow"
        )
    encoding = report.encoding or "no entries"
    if report.hash_bits:
        encoding += f", {report.hash_bits} bits"
    rows = "unknown" if report.live_rows is None else f"{report.live_rows:,}"
    per_row = f", {report.bytes_per_row:g} bytes a row" if report.bytes_per_row is not None else ""
    gone = f", {report.files_gone:,} more are gone" if report.files_gone else ""
    for name, value in (
        ("table", report.table),
        ("root", report.root or "none"),
        ("epoch", f"{report.epoch:,}"),
        ("snapshot", Text(f"{report.snapshot_id or 'none'}  ").append_text(of_head)),
        ("keys", encoding),
        ("live rows", f"{rows} in {report.files:,} data files{gone}"),
        ("entries", f"{report.entries:,}, {report.tombstones:,} of them tombstones"),
        ("size", f"{decimal(report.bytes)}, {report.bytes_per_key:g} bytes a key{per_row}"),
        ("greatest order", _order(report.greatest)),
    ):
        table.add_row(name, value)
    return table


def _runs(report: IndexReport) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("run", "tier", "segments", "entries", "tombstones", "size"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("bytes/key", justify="right")
    for name in ("layout", "first key", "last key"):
        table.add_column(name, no_wrap=True)
    table.add_column("files", justify="right")
    for name in ("age", "merging"):
        table.add_column(name, no_wrap=True)
    largest = max(run.bytes for run in report.runs)
    for run in report.runs:
        table.add_row(
            f"{run.run}",
            f"{run.tier}",
            f"{run.segments:,}",
            f"{run.entries:,}",
            f"{run.tombstones:,}",
            decimal(run.bytes),
            Text("█" * max(1, round(_BAR * run.bytes / max(largest, 1))), style="cyan"),
            f"{run.bytes_per_key:g}",
            "+".join(run.layouts),
            _short(run.first_key),
            _short(run.last_key),
            f"{run.files:,}",
            _age(run.written_at),
            "" if run.merging_into is None else f"→ {run.merging_into}",
        )
    return table


def _order(order: tuple[int, ...] | None) -> str:
    return "none" if order is None else "/".join(f"{part:x}" for part in order)


def _short(code: str) -> str:
    return code if len(code) <= 16 else f"{code[:15]}…"


def _age(written_at: int) -> str:
    if not written_at:
        return ""
    seconds = max(0.0, time.time() - written_at / 1000)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
