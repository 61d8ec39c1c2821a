from __future__ import annotations

import io

import pytest
from rich.console import Console

from icemirror.cli.demo.progress import MirrorProgress
from icemirror.cli.demo.screen import Rates, Screen, render_table


def _progress(merged: int, lag: float = 0.0) -> MirrorProgress:
    return MirrorProgress("products", 120, merged, lag, live_rows=77, merges=3, merged_at=50.0)


def test_rate_covers_the_last_seconds() -> None:
    rates = Rates()
    assert rates.update(_progress(0), 0.0) == 0.0
    assert rates.update(_progress(50), 5.0) == 10.0
    assert rates.update(_progress(50), 16.0) == 0.0


def test_row_shows_every_figure() -> None:
    console = Console(file=io.StringIO(), width=120)
    console.print(render_table([_progress(100, lag=1.25)], [12.6], 52.5, 120))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for word in ("products", "1.2 s", "120", "100", "13", "3", "2.5 s ago", "77"):
        assert word in text


def test_without_a_terminal_a_line_is_printed_periodically() -> None:
    console = Console(file=io.StringIO(), width=200, force_terminal=False)
    with Screen(console) as screen:
        screen.show([_progress(100, lag=2)], "changes continue")
        screen.show([_progress(110)], "changes continue")
        screen.show([_progress(120)], "no more changes", final=True)
    first, last = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "changes continue: 100/120 events, 0/s; lag products 2.0 s" in first
    assert "no more changes: 120/120 events" in last


def test_terminal_shows_a_live_table() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    with Screen(console) as screen:
        screen.show([_progress(100)], "changes continue", final=True)
    assert "live rows" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [60, 80])
def test_narrow_terminal_drops_columns_and_cuts_no_value(width: int) -> None:
    many = MirrorProgress(
        "order_items", 1_234_567, 1_200_000, 3.0, live_rows=1_000_123, merges=45, merged_at=50.0
    )
    console = Console(file=io.StringIO(), width=width)
    console.print(render_table([many], [5999.6], 52.5, width))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text
    assert all(word in text for word in ("order_items", "3.0 s", "1,200,000", "1,000,123"))
    assert len(text.splitlines()) == 2
