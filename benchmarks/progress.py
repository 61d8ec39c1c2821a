"""Progress on stderr: a bar on a terminal, a line for each timed step."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from benchmarks.messages import Timed


class Progress:
    """Says what is being done, and how long the last timed thing took. The bar counts parts on systems."""

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
        self._doing = ""

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def step(self, doing: str) -> None:
        """The next step begins."""
        self._doing = doing
        self._bar.update(self._task, description=doing)

    def note(self, timed: Timed) -> Timed:
        """What the step took by the system's own clock."""
        self._console.print(f"{timed.seconds:9.2f} s  {self._doing}", highlight=False)
        return timed

    def tell(self, words: str) -> None:
        """Something that one would want to read afterwards."""
        self._console.print(words, markup=False, highlight=False)

    def cell_done(self, words: str, style: str) -> None:
        """A part is through on a system."""
        self._console.print(words, style=style, markup=False, highlight=False)
        self._bar.advance(self._task)
