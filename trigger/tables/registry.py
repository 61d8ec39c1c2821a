"""The tables of a configuration, and the catalogs of their changelogs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from icemirror.errors import BadConfig, IcemirrorError, Transient, describe_unexpected
from trigger.heads.head_source import HeadResult, HeadSource, open_head_source
from trigger.heads.list_tables import ListingPending, Namespace, TableLister
from trigger.heads.poll_heads import HeadPoller
from trigger.tables.table_lookup import TableLookup

if TYPE_CHECKING:
    from icemirror.settings import Settings, TableSettings

_CATALOG_TIMEOUT_SECONDS = 20.0


class TableRegistry:
    """Configured tables; `refresh` adds those that `discover` finds in the catalogs. Safe for several threads.

    `lookup` finds a table by what events call it, once its head is known. `tables_with_head`: the names of the tables
    whose head was read at least once. `problem`: why the last refresh is incomplete.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = self._discovered_settings = settings
        self._sources: dict[str | None, HeadSource] = {}
        self._opening_locks: dict[str | None, threading.Lock] = {}
        self._poller = HeadPoller(self._open_source, clock)
        self._lister = TableLister(self._open_source, clock)
        self._listed_tables: dict[Namespace, tuple[str, ...]] = {}
        self._heads: dict[str, str] = {}
        self._lock = threading.RLock()
        self.tables_with_head: set[str] = set()
        self.lookup = TableLookup.build(settings.tables, {})
        self.problem: IcemirrorError | None = None
        self.refresh_failures = 0

    @property
    def tables(self) -> tuple[TableSettings, ...]:
        """All tables known by now."""
        return self._discovered_settings.tables

    @property
    def unmatched_messages(self) -> list[str]:
        """A message per pattern that matches no table."""
        from icemirror.settings.expand import describe_unmatched

        return [] if self.problem else describe_unmatched(self._discovered_settings)

    @property
    def groups(self) -> frozenset[str]:
        """The groups of the tables."""
        return frozenset(table.group for table in self.tables)

    def names(self, group: str | None = None) -> frozenset[str]:
        """Return the names of a group's tables, or of all tables."""
        return frozenset(table.name for table in self.tables if group in (None, table.group))

    def select_tables(self, names: Sequence[str], pattern: str | None) -> tuple[TableSettings, ...]:
        """Return the tables with these names, or else those that match. Raise `BadConfig` if there is none."""
        if names:
            return tuple(self._discovered_settings.table(name) for name in names)
        matching = tuple(table for table in self.tables if fnmatchcase(table.name, pattern or ""))
        if not matching:
            table_names = ", ".join(table.name for table in self.tables)
            raise BadConfig(f"no table matches {pattern!r}; configured: {table_names or 'none'}")
        return matching

    def refresh(self, catalog_timeout_seconds: float = _CATALOG_TIMEOUT_SECONDS) -> None:
        """Discover new changelogs. If that fails, the tables stay as they are, and `problem` is the reason.

        `refresh_failures` counts failures in a row; a slow catalog has not failed yet.
        """
        if self._settings.discover:
            with self._lock:
                self.problem = self._discover(catalog_timeout_seconds)
                self.lookup = TableLookup.build(self.tables, self._heads)

    def _discover(self, catalog_timeout_seconds: float) -> IcemirrorError | None:
        """Return the first failure or, if there is none, that a listing may still arrive."""
        from icemirror.settings import expand_discovered

        namespaces = [(entry.changelog_catalog, entry.namespace) for entry in self._settings.discover]
        failures: list[IcemirrorError] = []
        pending: list[ListingPending] = []
        for namespace, listing in self._lister.list_all(namespaces, catalog_timeout_seconds).items():
            match listing:
                case IcemirrorError():
                    failures.append(listing)
                case ListingPending():
                    pending.append(listing)
                case tables:
                    self._listed_tables[namespace] = tables
        try:
            self._discovered_settings = expand_discovered(self._settings, self._list_tables)
        except IcemirrorError as error:
            failures.append(error)
        except Exception as error:
            failures.append(Transient(describe_unexpected(error)))
        if failures:
            self.refresh_failures += 1
            return failures[0]
        if pending:
            return Transient(pending[0].message)
        self.refresh_failures = 0
        return None

    def poll_heads(self, catalog_timeout_seconds: float) -> dict[str, HeadResult]:
        """Return the heads of the tables' changelogs that are known by now, by mirror."""
        with self._lock:
            heads = self._poller.poll(self.tables, catalog_timeout_seconds)
            locations = {name: head for name, head in heads.items() if isinstance(head, str)}
            self.tables_with_head |= locations.keys()
            self._heads |= locations
            self.lookup = TableLookup.build(self.tables, self._heads)
        return heads

    def failures(self, table: TableSettings) -> int:
        """Return how often in a row the table's catalog failed to respond."""
        return self._poller.failures(table)

    @property
    def has_unknown_heads(self) -> bool:
        """Whether a catalog did not respond, or not yet, so that commits may be unnoticed."""
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
        return self._listed_tables.get((catalog, namespace), ())

    def _open_source(self, name: str | None) -> HeadSource:
        # One lock per catalog: a slow one (a credential_process, for instance) delays no other.
        with self._opening_locks.setdefault(name, threading.Lock()):
            if name not in self._sources:
                self._sources[name] = open_head_source(self._settings.catalog_properties(name), name)
            return self._sources[name]
