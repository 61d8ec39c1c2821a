"""The tables that the trigger knows, and the catalogs that it asks about them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from icemirror.errors import BadConfig, IcemirrorError, Transient, unexpected_text
from trigger.directory import Directory
from trigger.heads.open_source import open_source
from trigger.heads.source import Head, HeadSource
from trigger.listing import Listing, Namespace, StillListing
from trigger.looking import Looking

if TYPE_CHECKING:
    from icemirror.settings import Settings, TableSettings

_PATIENCE_SECONDS = 20.0


class Registry:
    """Tables from the configuration; `refresh` adds what `discover` finds in the catalogs.

    `directory` has them by what events call them, as far as their heads are known. Several threads may use it.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = self._known = settings
        self._sources: dict[str | None, HeadSource] = {}
        self._opening: dict[str | None, threading.Lock] = {}
        self._looking = Looking(self._source, clock)
        self._listing = Listing(self._source, clock)
        self._listed: dict[Namespace, tuple[str, ...]] = {}
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

    def refresh(self, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        """Looks for new changelogs. Where that fails, what was known stays, and `problem` says why.

        `refusals`: how often in a row it failed; a catalog that is slow has not failed yet.
        """
        if self._settings.discover:
            with self._lock:
                self.problem = self._discover(patience_seconds)
                if not isinstance(self.problem, StillListing):
                    self.refusals = self.refusals + 1 if self.problem else 0
                self.directory = Directory.of(self.tables, self._heads)

    def _discover(self, patience_seconds: float) -> IcemirrorError | None:
        from icemirror.settings import expand_discovered

        wanted = [(entry.changelog_catalog, entry.namespace) for entry in self._settings.discover]
        problems: list[IcemirrorError] = []
        for namespace, listed in self._listing.list_all(wanted, patience_seconds).items():
            if isinstance(listed, IcemirrorError):
                problems.append(listed)
            else:
                self._listed[namespace] = listed
        try:
            self._known = expand_discovered(self._settings, self._list_tables)
        except IcemirrorError as error:
            problems.append(error)
        except Exception as error:
            problems.append(Transient(unexpected_text(error)))
        # What is certain to need somebody is told before what may pass in a moment.
        return min(problems, key=lambda problem: isinstance(problem, StillListing), default=None)

    def heads(self, patience_seconds: float) -> dict[str, Head]:
        """What is known by now of the heads of the tables' changelogs, by mirror; `seen` keeps their names."""
        with self._lock:
            heads = self._looking.heads(self.tables, patience_seconds)
            known = {name: head for name, head in heads.items() if isinstance(head, str)}
            self.seen |= known.keys()
            self._heads |= known
            self.directory = Directory.of(self.tables, self._heads)
        return heads

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
        for source in list(self._sources.values()):
            source.close()

    def _list_tables(self, catalog: str | None, namespace: str) -> Iterable[str]:
        return self._listed.get((catalog, namespace), ())

    def _source(self, name: str | None) -> HeadSource:
        # A lock for each: one that takes its time (a credential_process, say) holds up no other.
        with self._opening.setdefault(name, threading.Lock()):
            if name not in self._sources:
                self._sources[name] = open_source(self._settings.catalog_properties(name), name)
            return self._sources[name]
