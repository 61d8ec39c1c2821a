"""How far a mirror is behind its changelog, computed from the table's row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from icemirror.protocol.rows import TableRow
from icemirror.step_results import Backlog


class Lag(NamedTuple):
    """The lag of one table; None for what is unknown."""

    seconds: float | None = None
    snapshots: int | None = None
    events: int | None = None


def measure_nothing(row: TableRow) -> Backlog | None:
    """Return None: only what workers reported is used."""
    return None


def compute_lag(
    row: TableRow, now: float, measure: Callable[[TableRow], Backlog | None] = measure_nothing
) -> Lag:
    """Return the lag: zero if all notices are covered, else the backlog of the last plan.

    If a notice arrived after that plan, `measure` provides the backlog instead.
    """
    if row.dirty == row.covered:
        return Lag() if row.dirty == 0 else Lag(0.0, 0, 0)
    planned, current = row.planned, None
    if planned is not None and planned.dirty == row.dirty:
        current = planned.left
    elif (measured := measure(row)) is not None and measured.snapshots:
        current = measured
    backlog = current or (planned.left if planned else None)
    # An empty backlog, or one without a start time, does not show how long the table waits: use the first notice.
    since = row.first_dirty_at
    if backlog is not None and backlog.snapshots and backlog.since is not None:
        since = backlog.since
    seconds = round(max(0.0, now - since), 3)
    return Lag(seconds, current.snapshots, current.events) if current else Lag(seconds)
