"""Rows with every field set, and their stored form."""

from __future__ import annotations

import json
from pathlib import Path

from icemirror.protocol.rows import Owner, SlotRow, SlotState, TableRow
from tests.unit.icemirror.protocol.samples import INVALID, POSITION, RUN, SLOT, TRANSIENT

STORED = json.loads((Path(__file__).parent / "rows_v1.json").read_text())


TABLE = TableRow(
    "shop.orders",
    min_interval_seconds=5.0,
    dirty=4,
    covered=3,
    noticed_head="s3://b/m4.json",
    merged_head="s3://b/m3.json",
    owner=Owner(SLOT, 7),
    not_before=1.5,
    failures=1,
    paused=True,
    first_dirty_at=1.0,
    last_dirty_at=2.0,
    yielded_at=2.5,
    completed_at=0.5,
    error=TRANSIENT.model_copy(update={"message": "m"}),
    look_error=INVALID.model_copy(update={"message": "n"}),
    last_run=RUN,
    position=POSITION,
)


SLOT_ROW = SlotRow(
    SLOT,
    state=SlotState.LINGERING,
    gen=7,
    run_id="run-7",
    lease_until=9.5,
    failures=2,
    not_before=3.5,
    quarantined=True,
    error="e",
)
