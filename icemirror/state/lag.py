"""How far a table is behind, from its row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from icemirror.result import Left
from icemirror.state.rows import TableRow


class Lag(NamedTuple):
    """What cannot be known is None."""

    seconds: float | None = None
    snapshots: int | None = None
    events: int | None = None


def no_other(row: TableRow) -> Left | None:
    """Nobody but jobs tells what is left."""
    return None


def lag_of(row: TableRow, now: float, ask: Callable[[TableRow], Left | None] = no_other) -> Lag:
    """Nothing, where all notices are covered; else what the last plan left, unless there was a notice after it.

    `ask` is asked for what that plan cannot tell.
    """
    if row.dirty == row.covered:
        return Lag() if row.dirty == 0 else Lag(0.0, 0, 0)
    planned, known = row.planned, None
    if planned is not None and planned.dirty == row.dirty:
        known = planned.left
    elif (asked := ask(row)) is not None and asked.snapshots:
        known = asked
    oldest = known or (planned.left if planned else None)
    # A plan that left nothing, or does not know since when: then what was noticed is what waits.
    since = oldest.since if oldest and oldest.snapshots and oldest.since is not None else row.first_dirty_at
    seconds = round(max(0.0, now - since), 3)
    return Lag(seconds, known.snapshots, known.events) if known else Lag(seconds)
