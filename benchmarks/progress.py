"""Progress on stderr: a bar on a terminal, a line for each timed step."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from benchmarks.messages import Timed


class Progress:
    """Shows the current step and the seconds of timed steps. The bar counts cells: parts on systems."""

    def __init__(self, console: Console, cells: int) -> None:
        self._console = console
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=cells)
        self._step = ""

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def step(self, description: str) -> None:
        """Show the next step."""
        self._step = description
        self._bar.update(self._task, description=description)

    def record(self, timed: Timed) -> Timed:
        """Print the seconds of the current step, as measured by the system, and return them."""
        self._console.print(f"{timed.seconds:9.2f} s  {self._step}", highlight=False)
        return timed

    def print_message(self, message: str) -> None:
        """Print a message that stays visible."""
        self._console.print(message, markup=False, highlight=False)

    def cell_done(self, message: str, style: str) -> None:
        """Print the result of a cell and advance the bar."""
        self._console.print(message, style=style, markup=False, highlight=False)
        self._bar.advance(self._task)
