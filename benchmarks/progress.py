"""Progress on stderr: a bar on a terminal, a line a step elsewhere."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar


class Progress:
    """Says what is being done, and how long the last timed thing took."""

    def __init__(self, console: Console, steps: int) -> None:
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
        self._task = self._bar.add_task("", total=steps)
        self._doing = ""
        self._begun = 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def step(self, doing: str) -> None:
        """The next step begins."""
        self._doing = doing
        self._bar.update(self._task, description=doing, completed=self._begun)
        self._begun += 1

    def note(self, seconds: float) -> None:
        """What the step took by the system's own clock."""
        self._console.print(f"{seconds:9.2f} s  {self._doing}", highlight=False)
