"""How all tables stand, in three numbers: for a log from which metrics are made."""

from __future__ import annotations

from collections.abc import Sequence

from icemirror.state.rows import TableRow


def standing(rows: Sequence[TableRow], now: float) -> dict[str, float]:
    """The longest wait of a notice, how many tables have one, and how many need a person."""
    waiting = [row for row in rows if row.dirty > row.covered and not row.paused]
    return {
        "tables": len(rows),
        "waiting": len(waiting),
        "quarantined": sum(bool(row.quarantined) for row in rows),
        "lag_seconds": round(max((now - row.first_dirty_at for row in waiting), default=0.0), 3),
    }
