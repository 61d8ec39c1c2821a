"""`icemirror resume`: takes work for tables again."""

from __future__ import annotations

import time
from contextlib import closing

import click

from icemirror.cli.console import config_option, load, out, print_error


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
    from trigger.registry import Registry

    settings = load(config)
    with closing(Registry(settings)) as registry:
        registry.refresh()
        if registry.problem is not None:
            print_error(f"discover: {registry.problem}")
        tables = registry.choose(name, pattern)
    policy = policy_of(settings)
    with open_store(settings) as store:
        for table in tables:
            apply(store, Resumed(time.time(), table.name), policy)
            out.print(f"{table.name}: takes work again")
        groups = {table.group for table in tables}
        for slot in store.load(EVERYTHING).slots.values():
            if slot.quarantined and slot.id.group in groups:
                apply(store, SlotResumed(time.time(), slot.id), policy)
