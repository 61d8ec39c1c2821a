"""Lists the tables of all catalogs that `discover` names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from icemirror.errors import IcemirrorError, Transient, describe_unexpected
from trigger.heads.catalog_calls import CatalogCalls, format_minutes
from trigger.heads.head_source import HeadSource

Namespace = tuple[str | None, str]
"""A catalog's name (None: the default catalog), and a dotted namespace in it."""


@dataclass(frozen=True, slots=True)
class ListingPending:
    """The catalog has not responded yet, and has not failed either."""

    message: str


TableListing = tuple[str, ...] | ListingPending | IcemirrorError
"""The tables of a namespace, or why they are not known."""


class TableLister:
    """Lists the tables of each catalog in the background."""

    def __init__(
        self, open_source: Callable[[str | None], HeadSource], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open_source = open_source
        self._calls: CatalogCalls[dict[str, TableListing]] = CatalogCalls(clock)
        self._requested_namespaces: dict[str | None, tuple[str, ...]] = {}

    def list_all(
        self, namespaces: Iterable[Namespace], catalog_timeout_seconds: float
    ) -> Mapping[Namespace, TableListing]:
        """Return what each namespace contains. A response that takes longer is not waited for a second time."""
        names_by_catalog: dict[str | None, dict[str, None]] = {}
        for catalog, name in namespaces:
            names_by_catalog.setdefault(catalog, {})[name] = None
        idle_catalogs = [catalog for catalog in names_by_catalog if not self._calls.is_pending(catalog)]
        for catalog in idle_catalogs:
            self._start(catalog, tuple(names_by_catalog[catalog]))
        self._calls.wait(idle_catalogs, catalog_timeout_seconds)
        return {
            (catalog, name): listing
            for catalog in names_by_catalog
            for name, listing in self._take_listings(catalog).items()
        }

    def _start(self, catalog: str | None, namespaces: tuple[str, ...]) -> None:
        self._requested_namespaces[catalog] = namespaces
        self._calls.start(catalog, lambda: {name: self._list(catalog, name) for name in namespaces})

    def _list(self, catalog: str | None, namespace: str) -> TableListing:
        try:
            return self._open_source(catalog).list_tables(namespace)
        except IcemirrorError as error:
            return error
        except Exception as error:
            return Transient(describe_unexpected(error))

    def _take_listings(self, catalog: str | None) -> Mapping[str, TableListing]:
        if (response := self._calls.take_response(catalog)) is not None:
            return response.result()
        name = "the catalog" if catalog is None else f"the catalog {catalog}"
        minutes = self._calls.waiting_minutes(catalog)
        listing: TableListing = ListingPending(f"{name} has not listed its tables yet")
        if minutes:
            listing = Transient(f"{name} has not listed its tables for {format_minutes(minutes)}")
        return dict.fromkeys(self._requested_namespaces[catalog], listing)
