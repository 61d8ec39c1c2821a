"""How far a mirror is behind its changelog, computed from the table's row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from icemirror.protocol.rows import TableRow
from icemirror.result import Backlog


class Lag(NamedTuple):
    """The lag of one table; None for what is unknown."""

    seconds: float | None = None
    snapshots: int | None = None
    events: int | None = None


def no_measurement(row: TableRow) -> Backlog | None:
    """Measure nothing: use only what workers reported."""
    return None


def lag_of(row: TableRow, now: float, measure: Callable[[TableRow], Backlog | None] = no_measurement) -> Lag:
    """Return the lag: zero if all notices are covered, else the backlog of the last plan.

    If a notice arrived after that plan, `measure` provides the backlog instead.
    """
    if row.dirty == row.covered:
        return Lag() if row.dirty == 0 else Lag(0.0, 0, 0)
    planned, known = row.planned, None
    if planned is not None and planned.dirty == row.dirty:
        known = planned.left
    elif (measured := measure(row)) is not None and measured.snapshots:
        known = measured
    oldest = known or (planned.left if planned else None)
    # An empty backlog, or one without a start time, does not show how long the table waits: use the first notice.
    since = oldest.since if oldest and oldest.snapshots and oldest.since is not None else row.first_dirty_at
    seconds = round(max(0.0, now - since), 3)
    return Lag(seconds, known.snapshots, known.events) if known else Lag(seconds)
