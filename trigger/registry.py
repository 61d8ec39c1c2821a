"""The tables that the trigger knows, and the catalogs that it asks about them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from icemirror.errors import BadConfig, IcemirrorError, Transient, unexpected_text
from trigger.directory import Directory
from trigger.heads.open_source import open_source
from trigger.heads.source import Head, HeadSource
from trigger.looking import Looking

if TYPE_CHECKING:
    from icemirror.settings import Settings, TableSettings


class Registry:
    """Tables from the configuration; `refresh` adds what `discover` finds in the catalogs.

    `directory` has them by what events call them, as far as their heads are known. Several threads may use it.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = self._known = settings
        self._sources: dict[str | None, HeadSource] = {}
        self._looking = Looking(self._source)
        self.seen: set[str] = set()
        self._heads: dict[str, str] = {}
        self._lock = threading.RLock()
        self.directory = Directory.of(settings.tables, {})
        self.problem: IcemirrorError | None = None
        self.refusals = 0

    @property
    def tables(self) -> tuple[TableSettings, ...]:
        """All tables known by now."""
        return self._known.tables

    @property
    def unmatched(self) -> list[str]:
        """What to say of patterns that no table matches by now."""
        from icemirror.settings.expand import unmatched

        return [] if self.problem else unmatched(self._known)

    @property
    def groups(self) -> frozenset[str]:
        """The groups of the tables."""
        return frozenset(table.group for table in self.tables)

    def names(self, group: str | None = None) -> frozenset[str]:
        """The tables of a group, or all."""
        return frozenset(table.name for table in self.tables if group in (None, table.group))

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
        if self._settings.discover:
            with self._lock:
                self._discover()
                self.directory = Directory.of(self.tables, self._heads)

    def _discover(self) -> None:
        from icemirror.settings import expand_discovered

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
        with self._lock:
            heads = self._looking.heads(self.tables, patience_seconds)
            known = {name: head for name, head in heads.items() if isinstance(head, str)}
            self.seen |= known.keys()
            self._heads |= known
            self.directory = Directory.of(self.tables, self._heads)
        return heads

    def learn(self, patience_seconds: float) -> None:
        """Brings `directory` up to date for a hint that is not in there: new changelogs, and heads not known yet."""
        with self._lock:
            self.refresh()
            if any(table.name not in self._heads for table in self.tables):
                self.heads(patience_seconds)

    def failures(self, table: TableSettings) -> int:
        """How often in a row the table's catalog did not answer."""
        return self._looking.failures(table)

    @property
    def is_blind(self) -> bool:
        """Whether a catalog did not answer, or not yet, so that commits may be unseen."""
        return any(map(self._looking.is_blind, self.tables))

    @property
    def lacks_places(self) -> bool:
        """Whether there may be tables in places that nobody knows yet, since their catalog does not answer."""
        return any(table.name not in self._heads and self._looking.is_blind(table) for table in self.tables)

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
