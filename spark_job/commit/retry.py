"""Retry after a conflict: the one way to plan again when another writer committed first."""

from __future__ import annotations

from types import TracebackType

from icemirror.errors import Conflict
from icemirror.telemetry.logs import get_log

MAX_ATTEMPTS = 8

log = get_log(__name__)


class RetriesExhausted(Conflict):
    """End the step: every attempt of a loop conflicted. A loop around that one does not retry it."""


class ConflictRetries:
    """The attempts of a loop. A `Conflict` ends the attempt; the loop then plans again from the new state.

        retries = ConflictRetries(exhausted="…")
        while True:
            with retries:
                return commit(plan())

    Raises `RetriesExhausted` with the text `exhausted` if every attempt conflicts. All other errors pass through. In
    particular `CommitUnknown` is never retried: the commit may have succeeded.
    """

    def __init__(self, *, exhausted: str, attempts: int = MAX_ATTEMPTS) -> None:
        self._exhausted, self._attempts = exhausted, attempts
        self._attempt = 0

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        error_class: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Conflict) or isinstance(error, RetriesExhausted):
            return False
        self._attempt += 1
        log.info("conflict, retrying", attempt=self._attempt, reason=str(error))
        if self._attempt == self._attempts:
            raise RetriesExhausted(self._exhausted) from error
        return True
