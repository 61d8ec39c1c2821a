"""Counts, times and names in command output."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from icemirror.cli.commands.merge import render_results
from icemirror.cli.commands.status import render_status
from icemirror.cli.terminal.console import printable
from icemirror.cli.terminal.text import format_count, format_duration
from icemirror.result import TableResult


def render(output: object, width: int) -> str:
    stream = StringIO()
    Console(file=stream, width=width, highlight=False).print(output)
    return stream.getvalue()


def test_count_of_one_has_no_plural() -> None:
    assert [format_count(number, "row") for number in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (99.94, "99.9 s"),
        (100, "2 min"),
        (1019, "17 min"),
        (5999, "100 min"),
        (6000, "1.7 h"),
        (7560, "2.1 h"),
        (172_800, "2 d"),
    ],
)
def test_duration_has_a_readable_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_tabs_in_driver_messages_become_spaces() -> None:
    assert printable("refused\n\tIs it\x1b[31m running?") == "refused\n Is it\\u001b[31m running?"


def test_rebuild_shows_no_zero_counts() -> None:
    rebuilt = TableResult(table="shop.orders", outcome="rebuilt", live_rows=7, seconds=1.5)
    assert render(render_results([rebuilt], 160), 160).splitlines()[1].split() == [
        "shop.orders",
        "rebuilt",
        "7",
        "1.50",
    ]


@pytest.mark.parametrize("width", [30, 70])
def test_lag_is_shown_next_to_a_long_name(width: int) -> None:
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
    shown = render(render_status([table], width, time.time()), width)
    assert "12.0 s" in shown
    assert "3 events" in shown


@pytest.mark.parametrize(
    ("age_seconds", "text"),
    [
        (0, "merged, 5 events, 0.0 s ago"),
        (1020, "merged, 5 events, 17 min ago"),
        (90_000, "2026-11-18 11:20:56Z"),
    ],
)
def test_last_run_shows_its_age_or_its_date(age_seconds: float, text: str) -> None:
    ended_at = datetime(2026, 11, 18, 11, 20, 56, tzinfo=UTC)
    table = {
        "table": "shop.orders",
        "state": "idle",
        "lag": {"seconds": 0.0, "snapshots": 0, "events": 0},
        "live_rows": 5,
        "index_bytes": 5,
        "last_run": {"ended_at": ended_at.isoformat(), "outcome": "merged", "events": 5},
        "replay": None,
        "last_replay": None,
        "error": None,
    }
    assert text in render(render_status([table], 160, ended_at.timestamp() + age_seconds), 160)
