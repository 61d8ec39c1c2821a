"""Whether the state shows that somebody takes up what waits."""

from __future__ import annotations

from dataclasses import replace

from icemirror.state.attendance import nobody_there, why_untaken
from icemirror.state.policy import Policy
from icemirror.state.replay import Replay
from icemirror.state.rows import Owner, SlotRow, SlotState, TableRow
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


ASKED = replace(MERGED, dirty=2, covered=1, replay=Replay("r", 1000.0))


def why(*given: TableRow | SlotRow, now: float = 1001.0) -> str | None:
    return why_untaken(rows(*given), "shop.orders", now, POLICY)


def test_why_nobody_is_at_what_was_asked_for() -> None:
    assert "does `icemirror watch` run?" in str(why(ASKED))
    assert "does `icemirror watch` run?" in str(
        why(ASKED, SlotRow(SLOT, SlotState.LINGERING, lease_until=900.0))
    )
    launching = SlotRow(SLOT, SlotState.LAUNCHING, lease_until=1005.0)
    assert why(ASKED, launching) == "a job was launched, and has not begun yet"
    assert (
        why(ASKED, replace(launching, state=SlotState.RUNNING)) == "the job that is there is busy with others"
    )
    lost = SlotRow(SLOT, failures=3, quarantined=True, error="no Java", not_before=9999.0)
    assert str(why(ASKED, lost)).startswith(
        "no worker comes up: no Java; when that is mended, `icemirror resume"
    )


def test_whoever_is_at_it_is_waited_for_unless_it_is_gone() -> None:
    taken = replace(ASKED, owner=Owner(SLOT, 7))
    at_work = SlotRow(SLOT, SlotState.RUNNING, gen=7, lease_until=1005.0)
    assert why(taken, at_work) is None
    assert "is gone" in str(why(taken, at_work, now=1006.0))
    assert "is gone" in str(why(taken, replace(at_work, gen=8)))
    assert "is gone" in str(why(taken))


def test_what_backs_off_only_waits() -> None:
    failed = replace(ASKED, failures=1, not_before=1100.0)
    assert why(failed) is None
    assert why(failed, now=1101.0) is not None


def test_a_lease_by_a_clock_far_ahead_is_no_sign_of_life() -> None:
    at_work = SlotRow(SLOT, SlotState.RUNNING, lease_until=1e12)
    assert nobody_there(rows(at_work), "shop.orders", 1999.0, POLICY) is not None
