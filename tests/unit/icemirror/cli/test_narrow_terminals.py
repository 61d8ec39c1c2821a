"""Output stays readable on narrow terminals and in pipes: names and numbers are never cut."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from icemirror.cli.commands import adopt
from icemirror.cli.commands.config import _sections
from icemirror.cli.commands.maintain_results import print_results
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


def render(output: RenderableType, width: int) -> list[str]:
    stream = StringIO()
    Console(file=stream, width=width, highlight=False).print(output)
    return stream.getvalue().splitlines()


def assert_uncut(lines: list[str], width: int, *words: str) -> None:
    """Assert that no line is too wide and that the output contains these words, possibly wrapped."""
    assert all(Text(line).cell_len <= width for line in lines), lines
    assert "…" not in "".join(lines)
    joined = "".join("".join(lines).split())
    for word in words:
        assert "".join(word.split()) in joined, (word, lines)


def make_plan(name: str, **more: Any) -> PlanResult:
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
def test_plan_is_never_cut(name: str, width: int) -> None:
    lines = render(render_plans([make_plan(name)], width), width)
    assert_uncut(lines, width, name, "1,234,567,890", "creates the mirror")


def test_plan_has_one_line_per_table_at_80_columns() -> None:
    plans = [make_plan("shop.orders"), make_plan("shop.customers")]
    plans = [plan.model_copy(update={"events": 96_000, "files": 120, "slices": 1}) for plan in plans]
    header, *rows = render(render_plans(plans, 80), 80)
    assert header.split() == ["table", "action", "snapshots", "files", "bytes", "events", "commits"]
    assert len(rows) == 2


@pytest.mark.parametrize("width", [60, 80, 160])
def test_reason_for_a_refused_plan_is_never_cut(width: int) -> None:
    changes = ("new column delivery_address (struct<1: street: string>)", "column total_amount dropped")
    lines = render(
        render_plans([make_plan("shop.orders", schema_changes=changes, refused="strict")], width), width
    )
    text = " ".join(" ".join(lines).split())
    assert all(word in text for word in ("delivery_address", "total_amount", "blocked:", "dropped"))
    assert "…" not in text


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_maintain_results_are_never_cut(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console.out, "_width", width)
    print_results(
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
    assert_uncut(capsys.readouterr().out.splitlines(), width, *words)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_adopt_result_is_never_cut(name: str, width: int) -> None:
    result = {
        "table": name,
        "snapshot_id": 1,
        "cursor": {"sources": [{"snapshot_id": 1396200587324517661}]},
        "live_rows": 1_234_567_890,
        "data_files": 4321,
        "index_bytes": 16_200_000,
        "seconds": 1.31,
    }
    assert_uncut(
        render(adopt._render(result, width), width), width, name, "1396200587324517661", "1,234,567,890"
    )


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
def test_checked_configuration_is_never_cut(tmp_path: Path, width: int) -> None:
    (tmp_path / "icemirror.yaml").write_text(CONFIG)
    settings = load_settings(tmp_path / "icemirror.yaml", {})
    lines = [
        line for _, columns in _sections(settings) for line in render(fit_columns(columns, width), width)
    ]
    words: tuple[str, ...] = (
        "a_long_namespace.orders_and_their_items_changelog",
        "→ another_namespace.orders_and_their_items",
    )
    words += ("customer, order_number, item_number", "bucket[16](customer), day(created_at)", "raw.*_log")
    assert_uncut(lines, width, *words, "https://catalog.a-rather-long-host-name.example.com/api/v1/iceberg")


def test_table_names_are_not_wrapped_at_80_columns(tmp_path: Path) -> None:
    (tmp_path / "icemirror.yaml").write_text(CONFIG)
    settings = load_settings(tmp_path / "icemirror.yaml", {})
    lines = [line for _, columns in _sections(settings) for line in render(fit_columns(columns, 80), 80)]
    assert any("a_long_namespace.orders_and_their_items_changelog" in line for line in lines)


def test_text_wraps_before_columns_are_dropped() -> None:
    columns = [
        Column("table", [Text("shop.orders")]),
        Column("action", [Text("blocked: " + "new column of some kind; " * 4)], wraps=True),
        Column("events", [Text("1,234")], "right", drop_rank=1),
    ]
    lines = render(fit_columns(columns, 50), 50)
    assert lines[0].split() == ["table", "action", "events"]
    assert len(lines) > 3
    assert all(len(line) <= 50 for line in lines)
    assert len(render(fit_columns(columns, 150), 150)) == 2


def test_control_characters_in_messages_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_error("no table 'a\x1b[2Jb'\nthe next line, with ümläuts and 注文")
    assert capsys.readouterr().err == "error: no table 'a\\u001b[2Jb'\nthe next line, with ümläuts and 注文\n"
