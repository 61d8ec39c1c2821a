"""Calls to several catalogs at once: a slow or unreachable catalog delays no other catalog's tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _PendingCall(Generic[T]):
    response: Future[T]
    started_at: float


class CatalogCalls(Generic[T]):
    """At most one pending call per catalog (None: the default catalog), each in its own thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pending: dict[str | None, _PendingCall[T]] = {}

    def is_pending(self, catalog: str | None) -> bool:
        """Return whether a call was started whose response was not taken yet."""
        return catalog in self._pending

    def start(self, catalog: str | None, call: Callable[[], T]) -> None:
        """Start a call. The catalog must have none pending."""
        self._pending[catalog] = _PendingCall(run_in_background(call), self._clock())

    def wait(self, catalogs: Iterable[str | None], seconds: float) -> None:
        """Wait until these catalogs have responded, at most this long."""
        wait(
            [self._pending[catalog].response for catalog in catalogs if catalog in self._pending],
            timeout=seconds,
        )

    def take_response(self, catalog: str | None) -> Future[T] | None:
        """Return the pending call's response and forget the call; None while there is no response."""
        if not self._pending[catalog].response.done():
            return None
        return self._pending.pop(catalog).response

    def waiting_minutes(self, catalog: str | None) -> int:
        """Return the full minutes since the pending call was started. A catalog that takes one minute has failed."""
        return int((self._clock() - self._pending[catalog].started_at) / 60)


def format_minutes(count: int) -> str:
    """Return `1 minute`, `2 minutes`. The text changes rarely: each change is written to every table's row."""
    return f"{count} minute{'s' if count > 1 else ''}"


def run_in_background(call: Callable[[], T]) -> Future[T]:
    """Return the response of a call in a daemon thread, which does not keep the process alive."""
    response: Future[T] = Future()

    def run() -> None:
        try:
            response.set_result(call())
        except BaseException as error:
            response.set_exception(error)

    Thread(target=run, name="catalog-call", daemon=True).start()
    return response
