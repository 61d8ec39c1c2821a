"""Counts, times and names in the output of commands."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from icemirror.cli.commands.merge import render_results
from icemirror.cli.commands.status import render_status
from icemirror.cli.terminal.console import printable
from icemirror.cli.terminal.wording import counted
from icemirror.result import TableResult


def drawn(what: object, width: int) -> str:
    stream = StringIO()
    Console(file=stream, width=width, highlight=False).print(what)
    return stream.getvalue()


def test_one_is_no_plural() -> None:
    assert [counted(number, "row") for number in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]


def test_tabs_of_a_driver_are_no_codes() -> None:
    assert printable("refused\n\tIs it\x1b[31m running?") == "refused\n Is it\\u001b[31m running?"


def test_a_rebuild_shows_no_zero_counts() -> None:
    rebuilt = TableResult(table="shop.orders", outcome="rebuilt", live_rows=7, seconds=1.5)
    assert drawn(render_results([rebuilt], 160), 160).splitlines()[1].split() == [
        "shop.orders",
        "rebuilt",
        "7",
        "1.50",
    ]


@pytest.mark.parametrize("width", [30, 70])
def test_lag_is_shown_however_long_a_name_is(width: int) -> None:
    table = {
        "table": "shop." + "a_long_name_" * 4,
        "state": "waiting",
        "lag": {"seconds": 12.0, "snapshots": 1, "events": 3},
        "live_rows": 5,
        "index_bytes": 5,
        "last_run": None,
        "replay": None,
        "last_replay": None,
        "error": None,
    }
    shown = drawn(render_status([table], width), width)
    assert "12.0 s" in shown
    assert "3 events" in shown
