"""The tables that the trigger knows, and the catalogs that it asks about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from icemirror.errors import BadConfig, IcemirrorError, Transient, unexpected_text
from icemirror.settings import Settings, TableSettings, expand_discovered
from trigger.heads.open_source import open_source
from trigger.heads.source import Head, HeadSource
from trigger.looking import Looking


class Registry:
    """Tables from the configuration; `refresh` adds what `discover` finds in the catalogs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = self._known = settings
        self._sources: dict[str | None, HeadSource] = {}
        self._looking = Looking(self._source)
        self.seen: set[str] = set()
        self.problem: IcemirrorError | None = None
        self.refusals = 0

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

    def choose(self, names: Sequence[str], pattern: str | None) -> tuple[TableSettings, ...]:
        """The tables of these names, else those whose names match; `BadConfig` where there is none."""
        if names:
            return tuple(self._known.table(name) for name in names)
        chosen = tuple(table for table in self.tables if fnmatchcase(table.name, pattern or ""))
        if not chosen:
            known = ", ".join(table.name for table in self.tables)
            raise BadConfig(f"no table matches {pattern!r}; there are: {known or 'none'}")
        return chosen

    def refresh(self) -> None:
        """Looks for new changelogs. Where that fails, what was known stays, and `problem` says why."""
        if not self._settings.discover:
            return
        try:
            self._known = expand_discovered(self._settings, self._list_tables)
        except Exception as error:
            self.problem = error if isinstance(error, IcemirrorError) else Transient(unexpected_text(error))
            self.refusals += 1
        else:
            self.problem = None
            self.refusals = 0

    def heads(self, patience_seconds: float) -> dict[str, Head]:
        """What is known by now of the heads of the tables' changelogs, by mirror; `seen` keeps their names."""
        heads = self._looking.heads(self.tables, patience_seconds)
        self.seen |= {name for name, head in heads.items() if isinstance(head, str)}
        return heads

    def failures(self, table: TableSettings) -> int:
        """How often in a row the table's catalog did not answer."""
        return self._looking.failures(table)

    def close(self) -> None:
        """Lets go of connections and threads."""
        self._looking.close()
        for source in self._sources.values():
            source.close()

    def _list_tables(self, catalog: str | None, namespace: str) -> Iterable[str]:
        return self._source(catalog).list_tables(namespace)

    def _source(self, name: str | None) -> HeadSource:
        if name not in self._sources:
            self._sources[name] = open_source(self._settings.catalog_properties(name), name)
        return self._sources[name]
