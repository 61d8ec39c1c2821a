"""Progress bars on a terminal; nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from icemirror.cli.terminal.console import err


def open_progress(console: Console = err, *, counts: bool = True) -> Progress:
    """Return a bar that disappears at the end; `counts` adds a column like 3/10."""
    columns: list[ProgressColumn] = [
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *([MofNCompleteColumn()] if counts else []),
        TimeElapsedColumn(),
    ]
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def show_table_progress(table: str) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows a step of the work on one table: (step, done, total; 0 if unknown)."""
    with open_progress(counts=False) as progress:
        task = progress.add_task(table, total=None)

        def show(step: str, done: int, total: int) -> None:
            progress.update(task, description=f"{table}: {step}", completed=done, total=total or None)

        yield show
