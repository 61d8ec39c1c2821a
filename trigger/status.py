"""The status of every table as the contract's JSON, from its row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from icemirror.settings import TableSettings
from icemirror.state.rows import Rows, SlotState, TableRow


@dataclass(frozen=True, slots=True)
class Unmerged:
    """What the tables themselves say of the lag."""

    snapshots: int
    events: int


def table_status(
    table: TableSettings, rows: Rows, now: float, behind: Unmerged | None = None
) -> dict[str, Any]:
    """One table; a value that cannot be known is null."""
    row = rows.tables.get(table.name) or TableRow(table.name)
    waits = row.dirty > row.covered or row.owner is not None
    error = row.error or row.look_error
    position = row.position
    run = row.last_run
    known = row.dirty > 0
    return {
        "table": table.name,
        "state": _state(row, rows),
        "lag": {
            "seconds": (round(max(0.0, now - row.first_dirty_at), 3) if waits else 0.0) if known else None,
            "snapshots": behind.snapshots if behind else None,
            "events": behind.events if behind else None,
        },
        "last_run": {
            "run_id": run.run_id,
            "started_at": _iso(run.started_at),
            "ended_at": _iso(run.ended_at),
            "outcome": run.outcome,
            "events": run.events,
        }
        if run
        else None,
        "failures": row.failures,
        "error": error.model_dump(mode="json") if error else None,
        "live_rows": position.live_rows if position else None,
        "index_bytes": position.index_bytes if position else None,
        "cursor": position.cursor.model_dump(mode="json") if position and position.cursor else None,
        "head": row.noticed_head,
    }


def fleet_status(tables: Iterable[TableSettings], rows: Rows, now: float) -> list[dict[str, Any]]:
    """All tables."""
    return [table_status(table, rows, now) for table in tables]


def _state(row: TableRow, rows: Rows) -> str:
    if row.quarantined:
        return "quarantined"
    if row.owner is not None:
        return "running"
    if row.dirty > row.covered or row.look_error is not None:
        launching = any(
            slot.state is SlotState.LAUNCHING and slot.id.group == row.group for slot in rows.slots.values()
        )
        return "launching" if launching else "waiting"
    return "idle"


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
