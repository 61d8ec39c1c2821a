"""Lists the tables of several catalogs at once, for `discover`: one that hangs holds up nobody else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass

from icemirror.errors import IcemirrorError, Transient, unexpected_text
from trigger.heads.source import HeadSource
from trigger.looking import LONGEST_LOOK_SECONDS, in_background

Namespace = tuple[str | None, str]
"""A catalog's name (None: the default one), and a dotted namespace in it."""

Listed = tuple[str, ...] | IcemirrorError
"""The tables of a namespace, or why they are not known."""


class StillListing(Transient):
    """The answer may come yet."""


@dataclass(frozen=True, slots=True)
class _Question:
    namespaces: tuple[str, ...]
    asked_at: float
    answer: Future[dict[str, Listed]]


class Listing:
    """Asks every catalog in a thread of its own, and no catalog twice at the same time."""

    def __init__(
        self, source: Callable[[str | None], HeadSource], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source = source
        self._clock = clock
        self._under_way: dict[str | None, _Question] = {}

    def list_all(self, wanted: Iterable[Namespace], patience_seconds: float) -> Mapping[Namespace, Listed]:
        """What each namespace holds. A catalog that takes longer is heard the next time, and not waited for again."""
        by_catalog: dict[str | None, dict[str, None]] = {}
        for catalog, namespace in wanted:
            by_catalog.setdefault(catalog, {})[namespace] = None
        new = [catalog for catalog in by_catalog if catalog not in self._under_way]
        for catalog in new:
            self._under_way[catalog] = self._ask(catalog, tuple(by_catalog[catalog]))
        wait([self._under_way[catalog].answer for catalog in new], timeout=patience_seconds)
        return {
            (catalog, namespace): listed
            for catalog in by_catalog
            for namespace, listed in self._hear(catalog).items()
        }

    def _ask(self, catalog: str | None, namespaces: tuple[str, ...]) -> _Question:
        def look() -> dict[str, Listed]:
            return {namespace: self._list(catalog, namespace) for namespace in namespaces}

        return _Question(namespaces, self._clock(), in_background(look))

    def _list(self, catalog: str | None, namespace: str) -> Listed:
        try:
            return self._source(catalog).list_tables(namespace)
        except IcemirrorError as error:
            return error
        except Exception as error:
            return Transient(unexpected_text(error))

    def _hear(self, catalog: str | None) -> Mapping[str, Listed]:
        question = self._under_way[catalog]
        if question.answer.done():
            del self._under_way[catalog]
            return question.answer.result()
        return dict.fromkeys(question.namespaces, self._silent(catalog, self._clock() - question.asked_at))

    def _silent(self, catalog: str | None, seconds: float) -> Transient:
        name = "the catalog" if catalog is None else f"the catalog {catalog}"
        if seconds < LONGEST_LOOK_SECONDS:
            return StillListing(f"{name} has not listed its tables yet")
        minutes = int(seconds / LONGEST_LOOK_SECONDS)
        return Transient(f"{name} has not listed its tables for {minutes} minute{'s' if minutes > 1 else ''}")
