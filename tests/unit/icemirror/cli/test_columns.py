"""Tables that commands print, at the width of a terminal."""

from __future__ import annotations

import time
from io import StringIO

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from icemirror.cli.commands.merge import render_results
from icemirror.cli.commands.status import render_status
from icemirror.cli.terminal.columns import Column, fit_columns
from icemirror.result import SliceResult, TableResult

COUNTS = {"events": 12_345_678, "inserted": 10_000_001, "updated": 2_345_677, "deleted": 1_000_009}


def render(output: RenderableType, width: int) -> list[str]:
    stream = StringIO()
    Console(file=stream, width=width, highlight=False).print(output)
    return stream.getvalue().splitlines()


def columns() -> list[Column]:
    return [
        Column("table", [Text("shop.orders"), Text("shop.items")]),
        Column("", [Text("█" * 20), Text("█")], drop_rank=2),
        Column("age", [Text("3 s"), Text("4 s")], drop_rank=1),
        Column("rows", [Text("1,234,567"), Text("8")], "right"),
    ]


def test_wide_terminal_shows_every_column() -> None:
    lines = render(fit_columns(columns(), 60), 60)
    assert lines[1].split() == ["shop.orders", "█" * 20, "3", "s", "1,234,567"]


@pytest.mark.parametrize(("width", "shown"), [(30, ["table", "age", "rows"]), (23, ["table", "rows"])])
def test_columns_are_dropped_in_order_of_priority(width: int, shown: list[str]) -> None:
    lines = render(fit_columns(columns(), width), width)
    assert lines[0].split() == shown
    assert lines[1].split()[0 :: len(lines[1].split()) - 1] == ["shop.orders", "1,234,567"]


def test_columns_that_do_not_fit_are_stacked_uncut() -> None:
    lines = render(fit_columns(columns(), 18), 18)
    assert [line.split() for line in lines[:3]] == [
        ["table", "shop.orders"],
        ["age", "3", "s"],
        ["rows", "1,234,567"],
    ]


@pytest.mark.parametrize("name", ["shop.orders", "a_long_namespace.and_a_table_with_a_very_long_name_indeed"])
@pytest.mark.parametrize("width", [70, 80, 160])
def test_merge_results_are_never_cut(name: str, width: int) -> None:
    merged = SliceResult(
        snapshot_id=1, **COUNTS, stale=7, unchanged=0, data_files=1, delete_files=1, data_bytes=1,
        delete_bytes=1, index_bytes=1, seconds=1.0, seconds_by_step={},
    )  # fmt: skip
    result = TableResult(table=name, outcome="merged", live_rows=98_765_432, slices=(merged,), seconds=12.5)
    lines = render(render_results([result], width), width)
    words = " ".join(lines).split()
    assert all(len(line) <= width for line in lines)
    assert "…" not in "".join(lines)
    assert {name, "merged", "98,765,432", *(f"{count:,}" for count in COUNTS.values())} <= set(words)


def test_rejected_column_is_shown_only_if_rows_were_rejected() -> None:
    merged = SliceResult(
        snapshot_id=1, **COUNTS, stale=7, unchanged=0, data_files=1, delete_files=1, data_bytes=1,
        delete_bytes=1, index_bytes=1, seconds=1.0, seconds_by_step={},
    )  # fmt: skip
    with_rejects = merged.model_copy(update={"rejected": 4_321})
    for slices, shown in (((merged,), False), ((merged, with_rejects), True)):
        result = TableResult(table="shop.orders", outcome="merged", live_rows=1, slices=slices, seconds=1.0)
        words = " ".join(render(render_results([result], 160), 160)).split()
        assert ("rejected" in words, "4,321" in words) == (shown, shown)


@pytest.mark.parametrize("width", [70, 80, 160])
def test_status_of_a_table_with_a_long_name_is_never_cut(width: int) -> None:
    name = "a_long_namespace.and_a_table_with_a_very_long_name_indeed"
    status = {
        "table": name,
        "state": "quarantined",
        "lag": {"seconds": 86_400.5, "snapshots": 3, "events": 12_345_678},
        "live_rows": 98_765_432,
        "index_bytes": 1_234_567,
        "last_run": None,
        "replay": None,
        "last_replay": None,
        "error": None,
    }
    lines = render(render_status([status], width, time.time()), width)
    assert "…" not in "".join(lines)
    assert {name, "quarantined"} <= set(" ".join(lines).split())
