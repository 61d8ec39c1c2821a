"""Retry after a conflict: the one loop that plans again when another writer committed first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from icemirror.errors import Conflict
from icemirror.telemetry.logs import get_log

MAX_ATTEMPTS = 8

Planned = TypeVar("Planned")
Result = TypeVar("Result")

log = get_log(__name__)


def retry_on_conflict(
    plan: Callable[[], Planned],
    execute: Callable[[Planned], Result],
    *,
    exhausted: str,
    attempts: int = MAX_ATTEMPTS,
) -> Result:
    """Return what `execute` makes of a fresh plan; after a `Conflict`, plan again from the new state.

    Raise `Conflict` with the text `exhausted` if every attempt conflicts. All other errors pass through. In particular
    `CommitUnknown` is never retried: the commit may have succeeded.
    """
    conflict: Conflict | None = None
    for attempt in range(1, attempts + 1):
        planned = plan()
        try:
            return execute(planned)
        except Conflict as error:
            log.info("conflict, retrying", attempt=attempt, reason=str(error))
            conflict = error
    raise Conflict(exhausted) from conflict
