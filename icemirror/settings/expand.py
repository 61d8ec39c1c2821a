"""Expand `discover` into tables, from the catalogs' listings."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from icemirror.errors import Invalid
from icemirror.settings.discovery import DiscoverSettings
from icemirror.settings.model import Settings
from icemirror.settings.name_clashes import mirror_clashes, rejects_clashes
from icemirror.settings.tables import TableSettings

ListTables = Callable[[str | None, str], Iterable[str]]
"""Lists the table names of a catalog (None: the default one) and dotted namespace."""


def expand_discovered(settings: Settings, list_tables: ListTables) -> Settings:
    """Return the settings with a table for every matching changelog. Tables under `tables` win.

    Two changelogs for one mirror are an error: a new changelog must not take over the mirror of another one.
    """
    tables = list(settings.tables)
    listed_mirrors = {table.name for table in tables}
    taken_tables = {(table.changelog_catalog, table.changelog_id) for table in tables}
    taken_tables |= {(table.mirror_catalog, table.mirror_id) for table in tables}
    for entry in settings.discover:
        for changelog in sorted(set(list_tables(entry.changelog_catalog, entry.namespace))):
            mirror = entry.mirror_name(changelog)
            if mirror is None or "." in changelog:
                continue  # (a name with a dot cannot be part of a dotted name)
            table = entry.table(changelog, mirror)
            source = (table.changelog_catalog, table.changelog_id)
            if table.name in listed_mirrors or source in taken_tables:
                continue
            taken_tables.add(source)
            tables.append(table)
    clashes = (*mirror_clashes(tables), *rejects_clashes(tables))
    if clashes:
        _, message = clashes[0]
        raise Invalid(f"discover: {message}; list the table under `tables`, or narrow `match`")
    return settings.model_copy(update={"tables": tuple(tables)})


def describe_unmatched(settings: Settings) -> list[str]:
    """Return a message for each entry of `discover` that matches no table."""
    return [
        f"no table of {entry.namespace} matches {entry.match}"
        for entry in settings.discover
        if not any(_is_match(table, entry) for table in settings.tables)
    ]


def _is_match(table: TableSettings, entry: DiscoverSettings) -> bool:
    namespace, _, name = str(table.changelog_id).rpartition(".")
    is_same_namespace = (table.changelog_catalog, namespace) == (entry.changelog_catalog, entry.namespace)
    return is_same_namespace and entry.mirror_name(name) is not None
