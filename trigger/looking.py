"""Looks at the heads in several catalogs at once: one that is slow or down holds up nobody else's tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from icemirror.errors import IcemirrorError, Transient
from icemirror.table_id import TableId
from trigger.heads.source import Head, HeadSource

if TYPE_CHECKING:
    from icemirror.settings import TableSettings

T = TypeVar("T")

_LONGEST_PAUSE_SECONDS = 30.0
LONGEST_LOOK_SECONDS = 60.0
"""A catalog that has not answered for so long is told of."""


@dataclass
class _Catalog:
    """Where looking at one catalog stands."""

    under_way: Future[Mapping[TableId, Head]] | None = None
    tables: Sequence[TableSettings] = ()
    asked_at: float = 0.0
    failures: int = 0
    not_before: float = 0.0


class Looking:
    """Asks every catalog in a thread of its own, and one that failed again only after a pause."""

    def __init__(
        self, source: Callable[[str | None], HeadSource], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source = source
        self._clock = clock
        self._catalogs: dict[str | None, _Catalog] = {}

    def heads(self, tables: Sequence[TableSettings], patience_seconds: float) -> dict[str, Head]:
        """What is known of the heads by now, by mirror; a catalog that takes longer is heard the next time."""
        for name in {table.changelog_catalog for table in tables}:
            self._ask(name, [table for table in tables if table.changelog_catalog == name])
        pending = [one.under_way for one in self._catalogs.values() if one.under_way is not None]
        wait(pending, timeout=patience_seconds)
        heads: dict[str, Head] = {}
        for catalog in self._catalogs.values():
            if catalog.under_way is None:
                continue
            if catalog.under_way.done():
                heads.update(self._answer(catalog, catalog.under_way))
            elif (seconds := self._clock() - catalog.asked_at) >= LONGEST_LOOK_SECONDS:
                catalog.failures = int(seconds / LONGEST_LOOK_SECONDS)
                # In words that change seldom: each change is written into the row of every table.
                minutes = catalog.failures
                silent = Transient(
                    f"the catalog has not answered for {minutes} minute{'s' if minutes > 1 else ''}"
                )
                heads.update({table.name: silent for table in catalog.tables})
        return heads

    def failures(self, table: TableSettings) -> int:
        """How often in a row the table's catalog did not answer."""
        catalog = self._catalogs.get(table.changelog_catalog)
        return 0 if catalog is None else catalog.failures

    def is_blind(self, table: TableSettings) -> bool:
        """Whether the table's catalog has not answered yet, or not all that it was asked."""
        catalog = self._catalogs.get(table.changelog_catalog)
        return catalog is None or catalog.under_way is not None or catalog.failures > 0

    def _ask(self, name: str | None, tables: Sequence[TableSettings]) -> None:
        catalog = self._catalogs.setdefault(name, _Catalog())
        if catalog.under_way is None and self._clock() >= catalog.not_before:
            ids = [table.changelog_id for table in tables]
            catalog.tables, catalog.asked_at = tables, self._clock()
            catalog.under_way = in_background(lambda: self._source(name).look(ids))

    def _answer(self, catalog: _Catalog, future: Future[Mapping[TableId, Head]]) -> dict[str, Head]:
        catalog.under_way = None
        try:
            found = future.result()
        except IcemirrorError as error:
            failure = error
        except Exception as error:  # an answer that nobody foresaw must not stop the other catalogs
            failure = Transient(f"the catalog gave an unforeseen answer: {type(error).__name__}")
        else:
            heads = {table.name: found[table.changelog_id] for table in catalog.tables}
            if any(isinstance(head, Transient) for head in heads.values()):
                self._ask_again_later(catalog)
            else:
                catalog.failures = 0
            return heads
        self._ask_again_later(catalog)
        return {table.name: failure for table in catalog.tables}

    def _ask_again_later(self, catalog: _Catalog) -> None:
        catalog.failures += 1
        pause = min(0.5 * 2**catalog.failures, _LONGEST_PAUSE_SECONDS)
        catalog.not_before = self._clock() + pause


def in_background(look: Callable[[], T]) -> Future[T]:
    """Looks in a thread that does not keep the process, should the catalog never answer."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(look())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, name="look", daemon=True).start()
    return future
