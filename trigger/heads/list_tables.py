"""Lists the tables of all catalogs that `discover` names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from icemirror.errors import IcemirrorError, Transient, describe_unexpected
from trigger.heads.catalog_calls import CatalogCalls, in_minutes
from trigger.heads.head_source import HeadSource

Namespace = tuple[str | None, str]
"""A catalog's name (None: the default catalog), and a dotted namespace in it."""

Listed = tuple[str, ...] | IcemirrorError
"""The tables of a namespace, or why they are not known."""


class ListingPending(Transient):
    """The catalog has not responded yet, and has not failed either."""


class TableLister:
    """Lists the tables of each catalog in the background."""

    def __init__(
        self, source: Callable[[str | None], HeadSource], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source = source
        self._calls: CatalogCalls[dict[str, Listed]] = CatalogCalls(clock)
        self._requested_namespaces: dict[str | None, tuple[str, ...]] = {}

    def list_all(
        self, wanted: Iterable[Namespace], catalog_timeout_seconds: float
    ) -> Mapping[Namespace, Listed]:
        """Return what each namespace contains. A response that takes longer is not waited for a second time."""
        by_catalog: dict[str | None, dict[str, None]] = {}
        for catalog, namespace in wanted:
            by_catalog.setdefault(catalog, {})[namespace] = None
        started = [catalog for catalog in by_catalog if not self._calls.is_pending(catalog)]
        for catalog in started:
            self._start(catalog, tuple(by_catalog[catalog]))
        self._calls.wait(started, catalog_timeout_seconds)
        return {
            (catalog, namespace): listed
            for catalog in by_catalog
            for namespace, listed in self._take_listing(catalog).items()
        }

    def _start(self, catalog: str | None, namespaces: tuple[str, ...]) -> None:
        self._requested_namespaces[catalog] = namespaces
        self._calls.start(catalog, lambda: {name: self._list(catalog, name) for name in namespaces})

    def _list(self, catalog: str | None, namespace: str) -> Listed:
        try:
            return self._source(catalog).list_tables(namespace)
        except IcemirrorError as error:
            return error
        except Exception as error:
            return Transient(describe_unexpected(error))

    def _take_listing(self, catalog: str | None) -> Mapping[str, Listed]:
        if (response := self._calls.take_response(catalog)) is not None:
            return response.result()
        name = "the catalog" if catalog is None else f"the catalog {catalog}"
        minutes = self._calls.unanswered_minutes(catalog)
        if minutes:
            silent = Transient(f"{name} has not listed its tables for {in_minutes(minutes)}")
        else:
            silent = ListingPending(f"{name} has not listed its tables yet")
        return dict.fromkeys(self._requested_namespaces[catalog], silent)
