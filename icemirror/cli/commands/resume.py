"""`icemirror resume`: merges tables again."""

from __future__ import annotations

import time

import click
from rich.text import Text

from icemirror.cli.setup.tables import select_trigger_tables, table_or_match_options
from icemirror.cli.terminal.console import config_option, load, out
from icemirror.cli.terminal.examples import examples
from icemirror.protocol.rows import Row, TableRow
from icemirror.protocol.waiting_reasons import WHAT_STARTS_JOBS


@click.command(epilog=examples("icemirror resume -t shop.orders", "icemirror resume --match '*'"))
@config_option
@table_or_match_options
def resume(config: str | None, names: tuple[str, ...], pattern: str | None) -> None:
    """Resume tables and lift their quarantine: the trigger's next round tries them.

    Give --table or --match ('*' for all tables). The next round also compares mirrors and changelogs again, so a
    dropped or rolled-back mirror is repaired.
    """
    settings = load(config)
    tables = select_trigger_tables(settings, names, pattern)
    from icemirror.protocol.events import Resumed, SlotResumed
    from icemirror.protocol.reads import EVERYTHING
    from icemirror.stores.apply import apply
    from icemirror.stores.from_settings import open_store, policy_of

    policy = policy_of(settings)
    with open_store(settings) as store:
        for table in tables:
            applied = apply(store, Resumed(time.time(), table.name), policy)
            out.print(Text(f"{table.name}: {_describe(applied.before)}"), soft_wrap=True)
        groups = {table.group for table in tables}
        for slot in store.load(EVERYTHING).slots.values():
            if slot.quarantined and slot.id.group in groups:
                apply(store, SlotResumed(time.time(), slot.id), policy)


def _describe(before: Row | None) -> str:
    """Return the result of resuming."""
    match before:
        case TableRow(paused=False, quarantined=False, failures=0):
            return "was not stopped; the next round compares its mirror with its changelog"
        case TableRow():
            return "resumed"
        case _:
            return f"no trigger has checked it yet; {WHAT_STARTS_JOBS}"
