"""The tables that the trigger knows, and the catalogs that it asks about them."""

from __future__ import annotations

from collections.abc import Iterable

from icemirror.errors import IcemirrorError
from icemirror.settings import Settings, TableSettings, expand_discovered
from trigger.heads.open_source import open_source
from trigger.heads.source import Head, HeadSource


class Registry:
    """Tables from the configuration; `refresh` adds what `discover` finds in the catalogs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = self._known = settings
        self._sources: dict[str | None, HeadSource] = {}

    @property
    def tables(self) -> tuple[TableSettings, ...]:
        """All tables known by now."""
        return self._known.tables

    @property
    def groups(self) -> frozenset[str]:
        """The groups of the tables."""
        return frozenset(table.group for table in self.tables)

    def names(self, group: str) -> frozenset[str]:
        """The tables of a group."""
        return frozenset(table.name for table in self.tables if table.group == group)

    def refresh(self) -> None:
        """Looks for new changelogs; raises `Transient` where a catalog does not answer."""
        if self._settings.discover:
            self._known = expand_discovered(self._settings, self._list_tables)

    def heads(self) -> dict[str, Head]:
        """The head pointer of every table's changelog, by mirror; or why it is not known."""
        by_catalog: dict[str | None, list[TableSettings]] = {}
        for table in self.tables:
            by_catalog.setdefault(table.changelog_catalog, []).append(table)
        heads: dict[str, Head] = {}
        for catalog, tables in by_catalog.items():
            try:
                found = self._source(catalog).look([table.changelog_id for table in tables])
            except IcemirrorError as error:  # this catalog does not answer; the others may
                heads.update((table.name, error) for table in tables)
            else:
                heads.update((table.name, found[table.changelog_id]) for table in tables)
        return heads

    def close(self) -> None:
        """Lets go of connections."""
        for source in self._sources.values():
            source.close()

    def _list_tables(self, catalog: str | None, namespace: str) -> Iterable[str]:
        return self._source(catalog).list_tables(namespace)

    def _source(self, name: str | None) -> HeadSource:
        if name not in self._sources:
            self._sources[name] = open_source(self._settings.catalog_properties(name), name)
        return self._sources[name]
