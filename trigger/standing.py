"""How all tables stand, in five numbers: for a log from which metrics are made."""

from __future__ import annotations

from collections.abc import Sequence

from icemirror.state.rows import RunSummary, TableRow

LATE_SECONDS = 900


def standing(rows: Sequence[TableRow], now: float) -> dict[str, float]:
    """The longest wait of a notice, how many tables have one, how many need a person, and the longest turn of late."""
    waiting = [row for row in rows if row.dirty > row.covered and not row.paused]
    oldest = min((row.first_dirty_at for row in waiting), default=now)
    late = [row.last_run for row in rows if row.last_run and row.last_run.ended_at > now - LATE_SECONDS]
    return {
        "tables": len(rows),
        "waiting": len(waiting),
        "quarantined": sum(bool(row.quarantined) for row in rows),
        "turn_seconds": round(max(map(_turn_seconds, late), default=0.0), 3),
        "lag_seconds": round(max(0.0, now - oldest), 3),  # (a clock may have been ahead)
    }


def _turn_seconds(run: RunSummary) -> float:
    return run.ended_at - run.started_at
