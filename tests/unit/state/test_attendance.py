"""Whether the state shows that somebody takes up what waits."""

from __future__ import annotations

from dataclasses import replace

from icemirror.state.attendance import nobody_there
from icemirror.state.policy import Policy
from icemirror.state.rows import SlotRow, SlotState, TableRow
from tests.unit.state.samples import SLOT, rows

POLICY = Policy(recheck_seconds=100.0, lease_seconds=10.0)
MERGED = TableRow("shop.orders", dirty=1, covered=1, noticed_head="m", completed_at=1000.0)


def test_a_table_that_no_trigger_has_looked_at() -> None:
    told = nobody_there(rows(TableRow("shop.orders", dirty=1)), "shop.orders", 1000.0, POLICY)
    assert told is not None
    assert told.startswith("no trigger has looked at it yet; `icemirror watch`")
    assert nobody_there(rows(), "shop.orders", 1000.0, POLICY) == told


def test_a_trigger_that_was_there_lately_may_be_there_still() -> None:
    assert nobody_there(rows(MERGED), "shop.orders", 1200.0, POLICY) is None
    other = replace(MERGED, name="shop.items", completed_at=5000.0)
    assert nobody_there(rows(MERGED, other), "shop.orders", 5100.0, POLICY) is None


def test_a_trigger_that_has_had_nothing_merged_for_too_long_is_gone() -> None:
    told = nobody_there(rows(MERGED), "shop.orders", 1211.0, POLICY)
    assert told is not None
    assert told.startswith("no trigger seems to run, the last job ended at 1970-01-01T00:16:40+00:00; ")


def test_a_worker_with_a_lease_is_there() -> None:
    at_work = SlotRow(SLOT, SlotState.RUNNING, lease_until=2000.0)
    assert nobody_there(rows(at_work), "shop.orders", 1999.0, POLICY) is None
    assert nobody_there(rows(at_work), "shop.orders", 2001.0, POLICY) is not None
