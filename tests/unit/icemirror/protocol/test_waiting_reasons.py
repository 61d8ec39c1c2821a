"""The reasons why a table waits, derived from the state rows."""

from __future__ import annotations

from dataclasses import replace

from icemirror.protocol.policy import Policy
from icemirror.protocol.replay import Replay
from icemirror.protocol.rows import Owner, SlotRow, SlotState, TableRow
from icemirror.protocol.waiting_reasons import missing_trigger_reason, waiting_reason
from tests.unit.icemirror.protocol.samples import SLOT, rows

POLICY = Policy(recheck_seconds=100.0, lease_seconds=10.0)
MERGED = TableRow("shop.orders", dirty=1, covered=1, noticed_head="m", completed_at=1000.0)


def test_reason_of_a_table_that_no_trigger_has_checked() -> None:
    reason = missing_trigger_reason(rows(TableRow("shop.orders", dirty=1)), "shop.orders", 1000.0, POLICY)
    assert reason is not None
    assert reason.startswith("no trigger has checked this table yet; start `icemirror watch`")
    assert missing_trigger_reason(rows(), "shop.orders", 1000.0, POLICY) == reason


def test_trigger_with_recent_merges_may_still_run() -> None:
    assert missing_trigger_reason(rows(MERGED), "shop.orders", 1200.0, POLICY) is None
    other = replace(MERGED, name="shop.items", completed_at=5000.0)
    assert missing_trigger_reason(rows(MERGED, other), "shop.orders", 5100.0, POLICY) is None


def test_trigger_without_recent_merges_counts_as_stopped() -> None:
    reason = missing_trigger_reason(rows(MERGED), "shop.orders", 1211.0, POLICY)
    assert reason is not None
    assert reason.startswith(
        "no trigger seems to be running, the last job ended at 1970-01-01T00:16:40+00:00; "
    )


def test_worker_with_a_lease_is_alive() -> None:
    running = SlotRow(SLOT, SlotState.RUNNING, lease_until=2000.0)
    assert missing_trigger_reason(rows(running), "shop.orders", 1999.0, POLICY) is None
    assert missing_trigger_reason(rows(running), "shop.orders", 2001.0, POLICY) is not None


REPLAY_REQUESTED = replace(MERGED, dirty=2, covered=1, replay=Replay("r", 1000.0))


def reason_of(*stored: TableRow | SlotRow, now: float = 1001.0) -> str | None:
    return waiting_reason(rows(*stored), "shop.orders", now, POLICY)


def test_reason_why_no_worker_serves_a_replay() -> None:
    assert "is `icemirror watch` running?" in str(reason_of(REPLAY_REQUESTED))
    assert "is `icemirror watch` running?" in str(
        reason_of(REPLAY_REQUESTED, SlotRow(SLOT, SlotState.LINGERING, lease_until=900.0))
    )
    launching = SlotRow(SLOT, SlotState.LAUNCHING, lease_until=1005.0)
    assert reason_of(REPLAY_REQUESTED, launching) == "a job was launched and has not started yet"
    assert (
        reason_of(REPLAY_REQUESTED, replace(launching, state=SlotState.RUNNING))
        == "the running job is busy with other tables"
    )
    quarantined = SlotRow(SLOT, failures=3, quarantined=True, error="no Java", not_before=9999.0)
    assert str(reason_of(REPLAY_REQUESTED, quarantined)).startswith(
        "no worker starts: no Java; fix that, then retry at once with `icemirror resume"
    )


def test_dead_owner_is_a_reason_and_a_living_one_is_not() -> None:
    owned_table = replace(REPLAY_REQUESTED, owner=Owner(SLOT, 7))
    running = SlotRow(SLOT, SlotState.RUNNING, gen=7, lease_until=1005.0)
    assert reason_of(owned_table, running) is None
    assert "has died" in str(reason_of(owned_table, running, now=1006.0))
    assert "has died" in str(reason_of(owned_table, replace(running, gen=8)))
    assert "has died" in str(reason_of(owned_table))


def test_back_off_is_not_a_reason() -> None:
    failed = replace(REPLAY_REQUESTED, failures=1, not_before=1100.0)
    assert reason_of(failed) is None
    assert reason_of(failed, now=1101.0) is not None


def test_lease_by_a_clock_far_ahead_is_ignored() -> None:
    running = SlotRow(SLOT, SlotState.RUNNING, lease_until=1e12)
    assert missing_trigger_reason(rows(running), "shop.orders", 1999.0, POLICY) is not None
