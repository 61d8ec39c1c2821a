"""Sample rows and events."""

from __future__ import annotations

from typing import Any

from icemirror.errors import Kind
from icemirror.protocol.events import SchedulingOptions, WorkerId
from icemirror.protocol.policy import Policy
from icemirror.protocol.rows import Owner, Rows, SlotId, SlotRow, SlotState, TableRow, TurnSummary
from icemirror.result import ErrorResult
from icemirror.step_results import MirrorStatus
from icemirror.tables.cursor import Cursor, CursorSource

POLICY = Policy(
    slots=1,
    lease_seconds=100.0,
    launch_lease_seconds=10.0,
    max_failures=3,
    quiet_seconds=2.0,
    max_wait_seconds=30.0,
    scale_out_seconds=20.0,
    backoff_seconds=4.0,
    backoff_factor=3.0,
    max_backoff_seconds=60.0,
    probation_seconds=1000.0,
    recheck_seconds=500.0,
)
OPTIONS = SchedulingOptions("default", 0.0)
SLOT = SlotId("default", 0)
ME = WorkerId(SLOT, 7, "run-7")
TRANSIENT = ErrorResult(kind=Kind.TRANSIENT, message="the catalog did not answer")
INVALID = ErrorResult(kind=Kind.INVALID, message="a key is NULL")
POSITION = MirrorStatus(
    cursor=Cursor(sources=(CursorSource(uuid="u", snapshot_id=1, sequence_number=1),)),
    live_rows=10,
    index_bytes=99,
)
RUN = TurnSummary("run-7", 1.0, 2.0, "merged", 5)


def rows(*samples: TableRow | SlotRow) -> Rows:
    """Return a view of these rows."""
    tables = {row.name: row for row in samples if isinstance(row, TableRow)}
    return Rows(tables, {row.id: row for row in samples if isinstance(row, SlotRow)})


def dirty(name: str = "shop.orders", at: float = 0.0, **fields: Any) -> TableRow:
    """Return a table with one uncovered notice."""
    return TableRow(name, dirty=1, first_dirty_at=at, last_dirty_at=at, **fields)


def owned(name: str = "shop.orders", **fields: Any) -> TableRow:
    """Return a table that `ME` owns."""
    return dirty(name, owner=Owner(SLOT, 7), **fields)


def slot(state: SlotState, **fields: Any) -> SlotRow:
    """Return the slot of `ME`."""
    values: dict[str, Any] = {"gen": 7, "run_id": "run-7", "lease_until": 100.0} | fields
    return SlotRow(SLOT, state=state, **values)
