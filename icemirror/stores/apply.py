"""Apply an event to a store: read the rows, call `step`, compare and set; retry if another writer wrote first."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from icemirror.errors import Transient
from icemirror.protocol.actions import Action
from icemirror.protocol.events import Event
from icemirror.protocol.policy import Policy
from icemirror.protocol.row_selection import rows_to_read
from icemirror.protocol.rows import Row, Rows, SlotRow, TableRow
from icemirror.protocol.step import step
from icemirror.stores.pause import pause_seconds
from icemirror.stores.store import Store

_ATTEMPTS = 200
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.001, 0.05


@dataclass(frozen=True, slots=True)
class Applied:
    """Result of an applied event: the row that it wrote and the row that this one replaced, if any; what to do next."""

    new_row: Row | None
    old_row: Row | None
    actions: tuple[Action, ...]


def apply(store: Store, event: Event, policy: Policy, sleep: Callable[[float], None] = time.sleep) -> Applied:
    """Apply the event to the stored rows, and return what it changed.

    The rows that are only read may change meanwhile; the rules allow for that (docs/development/change-the-trigger.md).
    """
    for attempt in range(_ATTEMPTS):
        rows = store.load(rows_to_read(event))
        result = step(rows, event, policy)
        if result.row is None:
            return Applied(None, None, result.actions)
        if store.compare_and_set(result.row):
            return Applied(result.row, _stored_row(rows, result.row), result.actions)
        sleep(pause_seconds(attempt, _FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS))
    raise Transient(
        f"{type(event).__name__} not applied: the state changed during each of {_ATTEMPTS} attempts; try again"
    )


def has_effect(event: Event, rows: Rows, policy: Policy) -> bool:
    """Return whether the event changes these rows or requires an action; if not, the store need not be called."""
    result = step(rows, event, policy)
    return result.row is not None or bool(result.actions)


def _stored_row(rows: Rows, row: Row) -> Row | None:
    match row:
        case TableRow(name=name):
            return rows.tables.get(name)
        case SlotRow(id=slot):
            return rows.slots.get(slot)
