"""A summary of all tables in five numbers, for a log line from which metrics are extracted."""

from __future__ import annotations

from collections.abc import Sequence

from icemirror.protocol.rows import RunSummary, TableRow

RECENT_SECONDS = 900


def summarize_fleet(rows: Sequence[TableRow], now: float) -> dict[str, float]:
    """Return the counts of tables, waiting and quarantined tables, the longest wait and the longest recent turn."""
    waiting = [row for row in rows if row.dirty > row.covered and not row.paused]
    oldest = min((row.first_dirty_at for row in waiting), default=now)
    recent = [row.last_run for row in rows if row.last_run and row.last_run.ended_at > now - RECENT_SECONDS]
    return {
        "tables": len(rows),
        "waiting": len(waiting),
        "quarantined": sum(bool(row.quarantined) for row in rows),
        "turn_seconds": round(max(map(_turn_seconds, recent), default=0.0), 3),
        "lag_seconds": round(max(0.0, now - oldest), 3),  # a writer's clock may have been ahead
    }


def _turn_seconds(run: RunSummary) -> float:
    return run.ended_at - run.started_at
