"""Shows how far a long look at one table is, on a terminal; nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from icemirror.cli.console import err


@contextmanager
def table_progress(table: str) -> Iterator[Callable[[str, int, int], None]]:
    """A function to call with the step, how much of it is done, and how much there is (0: not known)."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(table, total=None)

        def show(step: str, done: int, total: int) -> None:
            progress.update(task, description=f"{table}: {step}", completed=done, total=total or None)

        yield show
