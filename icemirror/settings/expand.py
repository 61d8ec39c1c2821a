"""`discover` turned into tables, from what the catalogs list."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from icemirror.errors import Invalid
from icemirror.settings.discovery import DiscoverSettings
from icemirror.settings.model import Settings, mirror_clashes
from icemirror.settings.rejects import rejects_clashes
from icemirror.settings.tables import TableSettings

ListTables = Callable[[str | None, str], Iterable[str]]
"""Catalog's name (None: the default one) and dotted namespace → the names of the tables in it."""


def expand_discovered(settings: Settings, list_tables: ListTables) -> Settings:
    """The settings with a table for every matching changelog; tables that are listed win.

    Two changelogs for one mirror are an error rather than a silent choice: a newly created changelog must not
    take over the mirror of another one.
    """
    tables = list(settings.tables)
    listed_mirrors = {table.name for table in tables}
    not_to_add = {(table.changelog_catalog, table.changelog_id) for table in tables}
    not_to_add |= {(table.mirror_catalog, table.mirror_id) for table in tables}
    for entry in settings.discover:
        for changelog in sorted(set(list_tables(entry.changelog_catalog, entry.namespace))):
            mirror = entry.mirror_name(changelog)
            if mirror is None or "." in changelog:
                continue  # (a name with a dot has no dotted name)
            table = entry.table(changelog, mirror)
            source = (table.changelog_catalog, table.changelog_id)
            if table.name in listed_mirrors or source in not_to_add:
                continue
            not_to_add.add(source)
            tables.append(table)
    for _, message in (*mirror_clashes(tables), *rejects_clashes(tables)):
        raise Invalid(f"discover: {message}; list the table under `tables`, or narrow `match`")
    return settings.model_copy(update={"tables": tuple(tables)})


def unmatched(settings: Settings) -> list[str]:
    """What to say of the entries of `discover` to which none of the tables, found ones included, belongs."""
    return [
        f"no table of {entry.namespace} matches {entry.match}"
        for entry in settings.discover
        if not any(_belongs(table, entry) for table in settings.tables)
    ]


def _belongs(table: TableSettings, entry: DiscoverSettings) -> bool:
    namespace, _, name = str(table.changelog_id).rpartition(".")
    here = (table.changelog_catalog, namespace) == (entry.changelog_catalog, entry.namespace)
    return here and entry.mirror_name(name) is not None
