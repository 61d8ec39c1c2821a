"""Tables chosen by name or by pattern, discovered ones included."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from icemirror.cli.console import Command, print_error

if TYPE_CHECKING:
    from icemirror.settings import Settings, TableSettings


def chosen_options(command: Command) -> Command:
    """Adds `-t/--table T` (`names`) and `--match GLOB` (`pattern`)."""
    table = click.option(
        "-t", "--table", "names", multiple=True, metavar="T", help="This table; may be repeated."
    )
    match = click.option(
        "--match", "pattern", metavar="GLOB", help="Every table whose name matches, e.g. 'shop.*'."
    )
    return table(match(command))


def choose(settings: Settings, names: tuple[str, ...], pattern: str | None) -> tuple[TableSettings, ...]:
    """The tables that the options name: exactly one of the two must be given."""
    if bool(names) == (pattern is not None):
        raise click.UsageError("give either --table or --match")
    from trigger.registry import Registry

    with closing(Registry(settings)) as registry:
        registry.refresh()
        if registry.problem is not None:
            print_error(f"discover: {registry.problem}")
        return registry.choose(names, pattern)
