"""`icemirror resume`: takes work for tables again."""

from __future__ import annotations

import time

import click
from rich.text import Text

from icemirror.cli.chosen import choose, chosen_options
from icemirror.cli.console import config_option, load, out
from icemirror.state.attendance import WHAT_TAKES_IT
from icemirror.state.rows import Row, TableRow


@click.command()
@config_option
@chosen_options
def resume(config: str | None, names: tuple[str, ...], pattern: str | None) -> None:
    """Take work for tables again, and lift their quarantine: the next round of the trigger tries them.

    Their mirrors are compared with the changelogs anew, so a mirror that was dropped or rolled back is made good.
    """
    settings = load(config)
    tables = choose(settings, names, pattern)
    from icemirror.state.apply import apply
    from icemirror.state.configured import open_store, policy_of
    from icemirror.state.events import Resumed, SlotResumed
    from icemirror.state.reads import EVERYTHING

    policy = policy_of(settings)
    with open_store(settings) as store:
        for table in tables:
            applied = apply(store, Resumed(time.time(), table.name), policy)
            out.print(Text(f"{table.name}: {_said(applied.before)}"), soft_wrap=True)
        groups = {table.group for table in tables}
        for slot in store.load(EVERYTHING).slots.values():
            if slot.quarantined and slot.id.group in groups:
                apply(store, SlotResumed(time.time(), slot.id), policy)


def _said(before: Row | None) -> str:
    """What the resuming came to."""
    match before:
        case TableRow(paused=False, quarantined=False, failures=0):
            return "had not stopped; its mirror is compared with its changelog in the next round"
        case TableRow():
            return "takes work again"
        case _:
            return f"no trigger has looked at it yet; {WHAT_TAKES_IT}"
