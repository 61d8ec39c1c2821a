"""Displays the running demo: a live table on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from icemirror.cli.demo.progress import MirrorProgress
from icemirror.cli.terminal.columns import Column, fit_columns

_RATE_SECONDS = 10.0
_LINE_SECONDS = 5.0
_FIGURE_WIDTH = 9


class Rates:
    """Events merged per second, over the last ten seconds."""

    def __init__(self) -> None:
        self._measurements: dict[str, deque[tuple[float, int]]] = {}

    def update(self, progress: MirrorProgress, now: float) -> float:
        """Add a measurement and return the rate."""
        measurements = self._measurements.setdefault(progress.table, deque())
        measurements.append((now, progress.merged_events))
        while now - measurements[0][0] > _RATE_SECONDS:
            measurements.popleft()
        (began, events_then), seconds = measurements[0], now - measurements[0][0]
        return (progress.merged_events - events_then) / seconds if seconds > 0 and began < now else 0.0


class Screen:
    """Shows progress on a console; a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rates = Rates()
        self._began = time.monotonic()
        self._last_line = float("-inf")
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, tables: Sequence[MirrorProgress], phase: str, *, final: bool = False) -> None:
        """Show a measurement."""
        now, elapsed = time.time(), time.monotonic() - self._began
        rates = [self._rates.update(progress, now) for progress in tables]
        if self._live is not None:
            overall = Text(f"{elapsed:5.0f} s  ", style="dim").append(phase, style="bold")
            self._live.update(
                Group(render_table(tables, rates, now, self._console.width), overall), refresh=True
            )
        elif final or elapsed - self._last_line >= _LINE_SECONDS:
            self._last_line = elapsed
            self._console.print(render_line(tables, rates, phase, elapsed), soft_wrap=True)


def render_table(
    tables: Sequence[MirrorProgress], rates: Sequence[float], now: float, width: int
) -> Table | Group:
    """Return a table with a row per mirror."""
    merged_at = [progress.merged_at for progress in tables]
    ago = ["" if time_ is None else f"{max(0.0, now - time_):.1f} s ago" for time_ in merged_at]
    columns = [
        Column("mirror", [Text(progress.table) for progress in tables]),
        Column("lag", [_lag(progress.lag_seconds) for progress in tables], "right"),
        _figures("committed", [f"{progress.committed_events:,}" for progress in tables], 1),
        _figures("merged", [f"{progress.merged_events:,}" for progress in tables]),
        _figures("events/s", [f"{rate:,.0f}" for rate in rates], 2),
        _figures("merges", [f"{progress.merges:,}" for progress in tables], 3),
        _figures("last merge", ago, 4),
        _figures("live rows", [f"{progress.live_rows:,}" for progress in tables]),
    ]
    return fit_columns(columns, width)


def _lag(seconds: float) -> Text:
    style = "green" if seconds == 0 else "yellow" if seconds < 5 else "red"
    text = "0 s" if seconds == 0 else f"{seconds:.1f} s"
    return Text(text.rjust(_FIGURE_WIDTH), style=style)


def _figures(name: str, cells: Sequence[str], drop_rank: int = 0) -> Column:
    """Return a column of constant width, so that the table does not move while figures grow."""
    return Column(name, [Text(cell.rjust(_FIGURE_WIDTH)) for cell in cells], "right", drop_rank)


def render_line(tables: Sequence[MirrorProgress], rates: Sequence[float], phase: str, elapsed: float) -> str:
    """Return the progress as one line."""
    merged, committed = (
        sum(getattr(progress, f"{name}_events") for progress in tables) for name in ("merged", "committed")
    )
    lags = ", ".join(f"{progress.table} {progress.lag_seconds:.1f} s" for progress in tables)
    return f"{elapsed:4.0f} s  {phase}: {merged:,}/{committed:,} events, {sum(rates):,.0f}/s; lag {lags}"
