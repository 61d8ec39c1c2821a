"""`icemirror pause`: stops merging tables."""

from __future__ import annotations

import time

import click
from rich.text import Text

from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.setup.tables import select_trigger_tables, table_or_match_options
from icemirror.cli.terminal.console import out
from icemirror.cli.terminal.text import examples
from icemirror.protocol.rows import Row, TableRow


@click.command(epilog=examples("icemirror pause -t shop.orders", "icemirror pause --match 'shop.*'"))
@config_option
@table_or_match_options
def pause(config: str | None, names: tuple[str, ...], pattern: str | None) -> None:
    """Stop merging tables: their mirrors stay as they are until `icemirror resume`.

    Give --table or --match ('*' for all tables). A running job stops after its current slice. Commits on the changelog
    are still recorded, and merged after the table is resumed; retain the changelog's snapshots until then.
    """
    settings = load_configuration(config)
    tables = select_trigger_tables(settings, names, pattern)
    from icemirror.protocol.events import PauseRequested
    from icemirror.stores.apply import apply
    from icemirror.stores.from_settings import build_policy, open_store

    policy = build_policy(settings)
    with open_store(settings) as store:
        for table in tables:
            applied = apply(store, PauseRequested(time.time(), table.name), policy)
            out.print(Text(f"{table.name}: {_describe(applied.new_row)}"), soft_wrap=True)


def _describe(new_row: Row | None) -> str:
    """Return the result of pausing."""
    match new_row:
        case TableRow(owner=owner) if owner is not None:
            return "paused; the running job stops after its current slice"
        case TableRow():
            return "paused"
        case _:
            return "was already paused"
