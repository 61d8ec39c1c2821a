"""How an event reaches a store: read, decide by `step`, compare and set; again when another was quicker."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from icemirror.errors import Transient
from icemirror.state.actions import Action
from icemirror.state.events import Event
from icemirror.state.policy import Policy
from icemirror.state.reads import reads_of
from icemirror.state.rows import Row, Rows, SlotRow, TableRow
from icemirror.state.step import step
from icemirror.state.store import Store

_ATTEMPTS = 200
_LONGEST_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Applied:
    """An event that took place: the row that it changed, if any, the same row before, and what to do next."""

    after: Row | None
    before: Row | None
    actions: tuple[Action, ...]


def apply(store: Store, event: Event, policy: Policy, sleep: Callable[[float], None] = time.sleep) -> Applied:
    """Takes the step on the stored rows.

    Other rows than the changed one may have moved since they were read: the rules allow for that, see
    docs/trigger.md.
    """
    for attempt in range(_ATTEMPTS):
        rows = store.load(reads_of(event))
        decided = step(rows, event, policy)
        if decided.row is None:
            return Applied(None, None, decided.actions)
        if store.compare_and_set(decided.row):
            return Applied(decided.row, _before(rows, decided.row), decided.actions)
        pause = min(0.001 * 2 ** min(attempt, 6), _LONGEST_PAUSE_SECONDS)
        sleep(pause * random.random())  # noqa: S311 (spreads those who collide)
    raise Transient(
        f"the state kept changing: {_ATTEMPTS} attempts to apply {type(event).__name__} were overtaken"
    )


def _before(rows: Rows, row: Row) -> Row | None:
    match row:
        case TableRow(name=name):
            return rows.tables.get(name)
        case SlotRow(id=slot):
            return rows.slots.get(slot)
