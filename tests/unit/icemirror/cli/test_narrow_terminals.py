"""Output stays readable on narrow terminals and in pipes: names and numbers are never cut."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from icemirror.cli.commands import adopt, maintain
from icemirror.cli.commands.config import _sections
from icemirror.cli.commands.plan import render_plans
from icemirror.cli.terminal import console
from icemirror.cli.terminal.columns import Column, fit_columns
from icemirror.config_file.load import load_settings
from icemirror.result import CompactResult, ExpireResult, IndexResult, OrphansResult, PlanResult

NAMES = [
    "shop.orders",
    "a_long_namespace.and_a_table_with_a_very_long_name_indeed",
    "läden.bestellungen_注文",
]
WIDTHS = [40, 60, 80, 160]


def drawn(what: RenderableType, width: int) -> list[str]:
    stream = StringIO()
    Console(file=stream, width=width, highlight=False).print(what)
    return stream.getvalue().splitlines()


def whole(lines: list[str], width: int, *words: str) -> None:
    """No line is too wide, and the output contains these words, possibly wrapped."""
    assert all(Text(line).cell_len <= width for line in lines), lines
    assert "…" not in "".join(lines)
    together = "".join("".join(lines).split())
    for word in words:
        assert "".join(word.split()) in together, (word, lines)


def plan_of(name: str, **more: Any) -> PlanResult:
    counts: dict[str, Any] = {
        "snapshots": 1234,
        "files": 56_789,
        "bytes": 98_765_432_100,
        "events": 1_234_567_890,
        "slices": 4321,
    }
    return PlanResult(table=name, **counts, creates_mirror=not more, **more)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_a_plan_is_never_cut(name: str, width: int) -> None:
    lines = drawn(render_plans([plan_of(name)], width), width)
    whole(lines, width, name, "1,234,567,890", "creates the mirror")


def test_a_plan_of_ordinary_tables_is_one_line_each_on_a_plain_terminal() -> None:
    plans = [plan_of("shop.orders"), plan_of("shop.customers")]
    plans = [one.model_copy(update={"events": 96_000, "files": 120, "slices": 1}) for one in plans]
    header, *rows = drawn(render_plans(plans, 80), 80)
    assert header.split() == ["table", "does", "snapshots", "files", "bytes", "events", "commits"]
    assert len(rows) == 2


@pytest.mark.parametrize("width", [60, 80, 160])
def test_the_reason_for_a_stop_is_never_cut(width: int) -> None:
    changes = ("new column delivery_address (struct<1: street: string>)", "column total_amount dropped")
    lines = drawn(
        render_plans([plan_of("shop.orders", schema_changes=changes, refused="strict")], width), width
    )
    text = " ".join(" ".join(lines).split())
    assert all(word in text for word in ("delivery_address", "total_amount", "stops:", "dropped"))
    assert "…" not in text


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_what_maintain_did_is_never_cut(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console.out, "_width", width)
    maintain._show(
        [
            ExpireResult(table=name, dry_run=False, snapshots=12_345, retained=100, files=1_234_567, left=0),
            OrphansResult(
                table=name, dry_run=False, listed=9_876_543, young=3, files=17, bytes=48_211, left=0
            ),
            CompactResult(
                table=name, dry_run=False, commits=1, files_before=2_000, files_after=1, rows=7_654_321
            ),
            IndexResult(
                table=name, dry_run=False, segments=14, damaged=0, lost=True, behind=False, runs_before=6,
                runs_after=6, commits=1,
            ),
        ]
    )  # fmt: skip
    words = (name, "12,345", "1,234,567", "9,876,543", "48.2 kB", "7,654,321", "all: root missing")
    whole(capsys.readouterr().out.splitlines(), width, *words)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_what_was_adopted_is_never_cut(name: str, width: int) -> None:
    told = {
        "table": name,
        "snapshot_id": 1,
        "cursor": {"sources": [{"snapshot_id": 1396200587324517661}]},
        "live_rows": 1_234_567_890,
        "data_files": 4321,
        "index_bytes": 16_200_000,
        "seconds": 1.31,
    }
    whole(drawn(adopt._render(told, width), width), width, name, "1396200587324517661", "1,234,567,890")


CONFIG = """\
iceberg:
  catalog: {type: rest, uri: "https://catalog.a-rather-long-host-name.example.com/api/v1/iceberg", warehouse: main}
tables:
  - {changelog: a_long_namespace.orders_and_their_items_changelog, mirror: another_namespace.orders_and_their_items,
     primary_keys: [customer, order_number, item_number], partition_by: ["bucket[16](customer)", day(created_at)]}
  - {changelog: raw.p, mirror: shop.p}
discover: [{namespace: raw, match: "*_log", mirror_namespace: läden}]
"""


@pytest.mark.parametrize("width", WIDTHS)
def test_a_checked_configuration_is_never_cut(tmp_path: Path, width: int) -> None:
    (tmp_path / "icemirror.yaml").write_text(CONFIG)
    settings = load_settings(tmp_path / "icemirror.yaml", {})
    lines = [line for _, columns in _sections(settings) for line in drawn(fit_columns(columns, width), width)]
    words: tuple[str, ...] = (
        "a_long_namespace.orders_and_their_items_changelog",
        "→ another_namespace.orders_and_their_items",
    )
    words += ("customer, order_number, item_number", "bucket[16](customer), day(created_at)", "raw.*_log")
    whole(lines, width, *words, "https://catalog.a-rather-long-host-name.example.com/api/v1/iceberg")


def test_names_of_tables_stay_in_one_piece_on_a_plain_terminal(tmp_path: Path) -> None:
    (tmp_path / "icemirror.yaml").write_text(CONFIG)
    settings = load_settings(tmp_path / "icemirror.yaml", {})
    lines = [line for _, columns in _sections(settings) for line in drawn(fit_columns(columns, 80), 80)]
    assert any("a_long_namespace.orders_and_their_items_changelog" in line for line in lines)


def test_text_wraps_before_columns_give_way() -> None:
    columns = [
        Column("table", [Text("shop.orders")]),
        Column("does", [Text("stops: " + "new column of some kind; " * 4)], wraps=True),
        Column("events", [Text("1,234")], "right", spare=1),
    ]
    lines = drawn(fit_columns(columns, 50), 50)
    assert lines[0].split() == ["table", "does", "events"]
    assert len(lines) > 3
    assert all(len(line) <= 50 for line in lines)
    assert len(drawn(fit_columns(columns, 150), 150)) == 2


def test_nothing_in_a_message_is_obeyed_by_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_error("no table 'a\x1b[2Jb'\nthe next line, with ümläuts and 注文")
    assert capsys.readouterr().err == "error: no table 'a\\u001b[2Jb'\nthe next line, with ümläuts and 注文\n"
