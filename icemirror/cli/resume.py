"""`icemirror resume`: takes work for tables again."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase

import click

from icemirror.cli.console import config_option, load, out
from icemirror.errors import Invalid


@click.command()
@config_option
@click.option("-t", "--table", "name", metavar="T", help="This table.")
@click.option("--match", "pattern", metavar="GLOB", help="Every table whose name matches, e.g. 'shop.*'.")
def resume(config: str | None, name: str | None, pattern: str | None) -> None:
    """Take work for tables again, and lift their quarantine: the next round of the trigger tries them."""
    if (name is None) == (pattern is None):
        raise click.UsageError("give either --table or --match")
    from icemirror.state.apply import apply
    from icemirror.state.configured import open_store, policy_of
    from icemirror.state.events import Resumed, SlotResumed
    from icemirror.state.reads import EVERYTHING
    from spark_job.discover import discover_tables

    settings = discover_tables(load(config))
    tables = (
        [settings.table(name)] if name else [t for t in settings.tables if fnmatchcase(t.name, pattern or "")]
    )
    if not tables:
        raise Invalid(
            f"no table matches {pattern!r}; there are: {', '.join(t.name for t in settings.tables)}"
        )
    policy = policy_of(settings)
    with open_store(settings) as store:
        for table in tables:
            apply(store, Resumed(time.time(), table.name), policy)
            out.print(f"{table.name}: takes work again")
        groups = {table.group for table in tables}
        for slot in store.load(EVERYTHING).slots.values():
            if slot.quarantined and slot.id.group in groups:
                apply(store, SlotResumed(time.time(), slot.id), policy)
