"""The tables of a configuration, and the catalogs of their changelogs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from icemirror.errors import BadConfig, IcemirrorError, Transient, describe_unexpected
from trigger.heads.head_source import Head, HeadSource, open_head_source
from trigger.heads.list_tables import ListingPending, Namespace, TableLister
from trigger.heads.poll_heads import HeadPoller
from trigger.tables.table_lookup import TableLookup

if TYPE_CHECKING:
    from icemirror.settings import Settings, TableSettings

_CATALOG_TIMEOUT_SECONDS = 20.0


class Registry:
    """Configured tables; `refresh` adds those that `discover` finds in the catalogs. Safe for several threads.

    `lookup` finds a table by what events call it, once its head is known. `seen` names the tables whose head was
    read at least once.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = self._discovered_settings = settings
        self._sources: dict[str | None, HeadSource] = {}
        self._opening: dict[str | None, threading.Lock] = {}
        self._poller = HeadPoller(self._source, clock)
        self._lister = TableLister(self._source, clock)
        self._listed: dict[Namespace, tuple[str, ...]] = {}
        self._heads: dict[str, str] = {}
        self._lock = threading.RLock()
        self.seen: set[str] = set()
        self.lookup = TableLookup.build(settings.tables, {})
        self.problem: IcemirrorError | None = None
        self.refresh_failures = 0

    @property
    def tables(self) -> tuple[TableSettings, ...]:
        """All tables known by now."""
        return self._discovered_settings.tables

    @property
    def unmatched(self) -> list[str]:
        """A message per pattern that matches no table."""
        from icemirror.settings.expand import unmatched

        return [] if self.problem else unmatched(self._discovered_settings)

    @property
    def groups(self) -> frozenset[str]:
        """The groups of the tables."""
        return frozenset(table.group for table in self.tables)

    def names(self, group: str | None = None) -> frozenset[str]:
        """Return the names of a group's tables, or of all tables."""
        return frozenset(table.name for table in self.tables if group in (None, table.group))

    def choose(self, names: Sequence[str], pattern: str | None) -> tuple[TableSettings, ...]:
        """Return the tables with these names, or else those that match. Raise `BadConfig` if there is none."""
        if names:
            return tuple(self._discovered_settings.table(name) for name in names)
        chosen = tuple(table for table in self.tables if fnmatchcase(table.name, pattern or ""))
        if not chosen:
            known = ", ".join(table.name for table in self.tables)
            raise BadConfig(f"no table matches {pattern!r}; configured: {known or 'none'}")
        return chosen

    def refresh(self, catalog_timeout_seconds: float = _CATALOG_TIMEOUT_SECONDS) -> None:
        """Discover new changelogs. If that fails, known tables stay, and `problem` says why.

        `refresh_failures` counts failures in a row; a slow catalog has not failed yet.
        """
        if self._settings.discover:
            with self._lock:
                self.problem = self._discover(catalog_timeout_seconds)
                if not isinstance(self.problem, ListingPending):
                    self.refresh_failures = self.refresh_failures + 1 if self.problem else 0
                self.lookup = TableLookup.build(self.tables, self._heads)

    def _discover(self, catalog_timeout_seconds: float) -> IcemirrorError | None:
        from icemirror.settings import expand_discovered

        wanted = [(entry.changelog_catalog, entry.namespace) for entry in self._settings.discover]
        problems: list[IcemirrorError] = []
        for namespace, listed in self._lister.list_all(wanted, catalog_timeout_seconds).items():
            if isinstance(listed, IcemirrorError):
                problems.append(listed)
            else:
                self._listed[namespace] = listed
        try:
            self._discovered_settings = expand_discovered(self._settings, self._list_tables)
        except IcemirrorError as error:
            problems.append(error)
        except Exception as error:
            problems.append(Transient(describe_unexpected(error)))
        # A failure is reported before a listing that may still arrive.
        return min(problems, key=lambda problem: isinstance(problem, ListingPending), default=None)

    def poll_heads(self, catalog_timeout_seconds: float) -> dict[str, Head]:
        """Return the heads of the tables' changelogs that are known by now, by mirror."""
        with self._lock:
            heads = self._poller.poll(self.tables, catalog_timeout_seconds)
            known = {name: head for name, head in heads.items() if isinstance(head, str)}
            self.seen |= known.keys()
            self._heads |= known
            self.lookup = TableLookup.build(self.tables, self._heads)
        return heads

    def failures(self, table: TableSettings) -> int:
        """Return how often in a row the table's catalog failed to respond."""
        return self._poller.failures(table)

    @property
    def has_unknown_heads(self) -> bool:
        """Whether a catalog did not respond, or not yet, so that commits may be unseen."""
        return any(map(self._poller.has_unknown_heads, self.tables))

    @property
    def lacks_locations(self) -> bool:
        """Whether a table's location may be unknown because its catalog does not respond."""
        return any(
            table.name not in self._heads and self._poller.has_unknown_heads(table) for table in self.tables
        )

    def close(self) -> None:
        """Release the connections to catalogs."""
        for source in list(self._sources.values()):
            source.close()

    def _list_tables(self, catalog: str | None, namespace: str) -> Iterable[str]:
        return self._listed.get((catalog, namespace), ())

    def _source(self, name: str | None) -> HeadSource:
        # One lock per catalog: a slow one (a credential_process, for instance) delays no other.
        with self._opening.setdefault(name, threading.Lock()):
            if name not in self._sources:
                self._sources[name] = open_head_source(self._settings.catalog_properties(name), name)
            return self._sources[name]
