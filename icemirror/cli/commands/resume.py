"""`icemirror resume`: merges tables again."""

from __future__ import annotations

import time

import click
from rich.text import Text

from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.setup.tables import select_trigger_tables, table_or_match_options
from icemirror.cli.terminal.console import out
from icemirror.cli.terminal.text import examples
from icemirror.protocol.rows import Row, TableRow
from icemirror.protocol.waiting_reasons import START_TRIGGER_HINT


@click.command(epilog=examples("icemirror resume -t shop.orders", "icemirror resume --match '*'"))
@config_option
@table_or_match_options
def resume(config: str | None, names: tuple[str, ...], pattern: str | None) -> None:
    """Resume paused, blocked and quarantined tables: the trigger's next round tries them.

    Give --table or --match ('*' for all tables). The next round also compares mirrors and changelogs again, so a
    dropped or rolled-back mirror is repaired.
    """
    settings = load_configuration(config)
    tables = select_trigger_tables(settings, names, pattern)
    from icemirror.protocol.events import ResumeRequested, SlotResumeRequested
    from icemirror.protocol.row_selection import ALL_ROWS
    from icemirror.stores.apply import apply
    from icemirror.stores.from_settings import build_policy, open_store

    policy = build_policy(settings)
    with open_store(settings) as store:
        for table in tables:
            applied = apply(store, ResumeRequested(time.time(), table.name), policy)
            out.print(Text(f"{table.name}: {_describe(applied.old_row)}"), soft_wrap=True)
        groups = {table.group for table in tables}
        for slot in store.load(ALL_ROWS).slots.values():
            if slot.quarantined and slot.id.group in groups:
                apply(store, SlotResumeRequested(time.time(), slot.id), policy)


def _describe(old_row: Row | None) -> str:
    """Return the result of resuming."""
    match old_row:
        case TableRow(paused=False, quarantined=False, failures=0):
            return "was not stopped; the next round compares its mirror with its changelog"
        case TableRow():
            return "resumed"
        case _:
            return f"no trigger has checked it yet; {START_TRIGGER_HINT}"
