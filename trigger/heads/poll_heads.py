"""Polls the heads of all tables, catalog by catalog."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icemirror.errors import IcemirrorError, Transient
from icemirror.tables.table_id import TableId
from trigger.heads.catalog_calls import CatalogCalls, format_minutes
from trigger.heads.head_source import HeadResult, HeadSource

if TYPE_CHECKING:
    from icemirror.settings import TableSettings

_MAX_BACKOFF_SECONDS = 30.0


@dataclass
class _CatalogState:
    """The calls to one catalog. `tables`: those of the last call. `not_before`: the earliest time of the next call."""

    tables: Sequence[TableSettings] = ()
    failures: int = 0
    not_before: float = 0.0


class HeadPoller:
    """Reads heads from each catalog in the background. A catalog that failed is polled again after a backoff."""

    def __init__(
        self, open_source: Callable[[str | None], HeadSource], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open_source = open_source
        self._clock = clock
        self._calls: CatalogCalls[Mapping[TableId, HeadResult]] = CatalogCalls(clock)
        self._states: dict[str | None, _CatalogState] = {}

    def poll(self, tables: Sequence[TableSettings], catalog_timeout_seconds: float) -> dict[str, HeadResult]:
        """Return the heads that are known by now, by mirror. A later poll returns responses that take longer."""
        for catalog in {table.changelog_catalog for table in tables}:
            self._start(catalog, [table for table in tables if table.changelog_catalog == catalog])
        self._calls.wait(self._states, catalog_timeout_seconds)
        heads: dict[str, HeadResult] = {}
        for catalog, state in self._states.items():
            if not self._calls.is_pending(catalog):
                continue
            if (response := self._calls.take_response(catalog)) is not None:
                heads.update(self._read_response(state, response))
            elif minutes := self._calls.waiting_minutes(catalog):
                state.failures = minutes
                failure = Transient(f"the catalog has not answered for {format_minutes(minutes)}")
                heads.update({table.name: failure for table in state.tables})
        return heads

    def failures(self, table: TableSettings) -> int:
        """Return how often in a row the table's catalog failed to respond."""
        state = self._states.get(table.changelog_catalog)
        return 0 if state is None else state.failures

    def has_unknown_heads(self, table: TableSettings) -> bool:
        """Return whether the table's catalog has not responded yet, or not completely."""
        catalog = table.changelog_catalog
        return catalog not in self._states or self._calls.is_pending(catalog) or self.failures(table) > 0

    def _start(self, catalog: str | None, tables: Sequence[TableSettings]) -> None:
        state = self._states.setdefault(catalog, _CatalogState())
        if not self._calls.is_pending(catalog) and self._clock() >= state.not_before:
            ids = [table.changelog_id for table in tables]
            state.tables = tables
            self._calls.start(catalog, lambda: self._open_source(catalog).load_heads(ids))

    def _read_response(
        self, state: _CatalogState, response: Future[Mapping[TableId, HeadResult]]
    ) -> dict[str, HeadResult]:
        heads: dict[str, HeadResult]
        try:
            heads_by_id = response.result()
            heads = {table.name: heads_by_id[table.changelog_id] for table in state.tables}
            has_failed = any(isinstance(head, Transient) for head in heads.values())
        except IcemirrorError as error:
            heads, has_failed = dict.fromkeys((table.name for table in state.tables), error), True
        except Exception as error:  # an unexpected response must not stop the other catalogs
            failure = Transient(f"the catalog gave an unexpected response: {type(error).__name__}")
            heads, has_failed = dict.fromkeys((table.name for table in state.tables), failure), True
        if has_failed:
            self._back_off(state)
        else:
            state.failures = 0
        return heads

    def _back_off(self, state: _CatalogState) -> None:
        state.failures += 1
        state.not_before = self._clock() + min(0.5 * 2**state.failures, _MAX_BACKOFF_SECONDS)
