"""Apply an event to a store: read the rows, call `step`, compare and set; retry if another writer wrote first."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from icemirror.errors import Transient
from icemirror.protocol.actions import Action
from icemirror.protocol.events import Event
from icemirror.protocol.policy import Policy
from icemirror.protocol.reads import reads_of
from icemirror.protocol.rows import Row, Rows, SlotRow, TableRow
from icemirror.protocol.step import step
from icemirror.stores.store import Store

_ATTEMPTS = 200
_MAX_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Applied:
    """Result of an applied event: the row that it changed, if any, that row before, and what to do next."""

    after: Row | None
    before: Row | None
    actions: tuple[Action, ...]


def apply(store: Store, event: Event, policy: Policy, sleep: Callable[[float], None] = time.sleep) -> Applied:
    """Apply the event to the stored rows.

    The rows that are only read may change meanwhile; the rules allow for that (docs/explanation/trigger.md).
    """
    for attempt in range(_ATTEMPTS):
        rows = store.load(reads_of(event))
        decided = step(rows, event, policy)
        if decided.row is None:
            return Applied(None, None, decided.actions)
        if store.compare_and_set(decided.row):
            return Applied(decided.row, _before(rows, decided.row), decided.actions)
        pause = min(0.001 * 2 ** min(attempt, 6), _MAX_PAUSE_SECONDS)
        sleep(pause * random.random())  # noqa: S311 (spreads colliding writers)
    raise Transient(
        f"{type(event).__name__} not applied: the state changed during each of {_ATTEMPTS} attempts; try again"
    )


def _before(rows: Rows, row: Row) -> Row | None:
    match row:
        case TableRow(name=name):
            return rows.tables.get(name)
        case SlotRow(id=slot):
            return rows.slots.get(slot)
