"""`icemirror pause`: takes no more work for tables."""

from __future__ import annotations

import time

import click
from rich.text import Text

from icemirror.cli.chosen import choose, chosen_options
from icemirror.cli.console import config_option, load, out
from icemirror.state.rows import Row, TableRow


@click.command()
@config_option
@chosen_options
def pause(config: str | None, names: tuple[str, ...], pattern: str | None) -> None:
    """Take no more work for tables: their mirrors stay as they are until `icemirror resume`.

    A job that merges one at the moment ends with the slice at hand. Commits are noticed all the same, and are merged
    once the table is resumed; keep the changelog's snapshots for so long.
    """
    settings = load(config)
    tables = choose(settings, names, pattern)
    from icemirror.state.apply import apply
    from icemirror.state.configured import open_store, policy_of
    from icemirror.state.events import Paused

    policy = policy_of(settings)
    with open_store(settings) as store:
        for table in tables:
            applied = apply(store, Paused(time.time(), table.name), policy)
            out.print(Text(f"{table.name}: {_said(applied.after)}"), soft_wrap=True)


def _said(after: Row | None) -> str:
    """What the pausing came to."""
    match after:
        case TableRow(owner=owner) if owner is not None:
            return "paused; the job that merges it stops after the slice at hand"
        case TableRow():
            return "paused"
        case _:
            return "was paused already"
