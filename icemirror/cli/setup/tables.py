"""Resolves `--table` and `--match` to tables, discovered ones included.

Commands that merge or inspect discover tables through the job's catalogs, and fail if a catalog fails. Commands of the
trigger discover them through its registry, and continue with the tables that it knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import click

from icemirror.cli.setup.configuration import Command
from icemirror.cli.terminal.console import print_error, print_hint

if TYPE_CHECKING:
    from icemirror.settings import Settings, TableSettings
    from trigger.tables.registry import TableRegistry

_TABLE = "Table, by the dotted name of its mirror or changelog"


def table_option(command: Command) -> Command:
    """Add the required `-t/--table T` (`name`)."""
    return click.option("-t", "--table", "name", required=True, metavar="T", help=f"{_TABLE}.")(command)


def tables_option(command: Command) -> Command:
    """Add the optional, repeatable `-t/--table T` (`names`)."""
    text = f"{_TABLE}; may be repeated.  [default: all tables]"
    return click.option("-t", "--table", "names", multiple=True, metavar="T", help=text)(command)


def table_or_match_options(command: Command) -> Command:
    """Add `-t/--table T` (`names`) and `--match GLOB` (`pattern`)."""
    table = click.option(
        "-t", "--table", "names", multiple=True, metavar="T", help=f"{_TABLE}; may be repeated."
    )
    match = click.option(
        "--match",
        "pattern",
        metavar="GLOB",
        help="Tables whose mirror's name matches: 'shop.*'; '*' for all.",
    )
    return table(match(command))


def select_job_tables(settings: Settings, names: tuple[str, ...]) -> tuple[TableSettings, ...]:
    """Return the named tables once each, or all; discovered through the job's catalogs."""
    from icemirror.settings.expand import describe_unmatched
    from spark_job.iceberg.catalogs import Catalogs
    from spark_job.worker.discover import discover_tables

    settings = discover_tables(settings, Catalogs(settings))
    for problem in describe_unmatched(settings):
        print_hint(f"discover: {problem}")
    selected = {table.name: table for table in map(settings.table, names)}
    return tuple(selected.values()) or settings.tables


def select_job_table(settings: Settings, name: str) -> TableSettings:
    """Return the named table, discovered through the job's catalogs."""
    (table,) = select_job_tables(settings, (name,))
    return table


def select_trigger_tables(
    settings: Settings, names: tuple[str, ...], pattern: str | None = None
) -> tuple[TableSettings, ...]:
    """Return the tables that `--table` or `--match` names; discovered by the trigger. Exactly one must be given."""
    if bool(names) == (pattern is not None):
        raise click.UsageError("give either --table or --match ('*' for all tables)")
    with open_registry(settings) as registry:
        return registry.select_tables(names, pattern)


@contextmanager
def open_registry(settings: Settings) -> Iterator[TableRegistry]:
    """Yield the trigger's registry after one refresh; a failed discovery is printed on stderr."""
    from trigger.tables.registry import TableRegistry

    with closing(TableRegistry(settings)) as registry:
        registry.refresh()
        if registry.problem is not None:
            print_error(f"discover: {registry.problem}")
        yield registry
