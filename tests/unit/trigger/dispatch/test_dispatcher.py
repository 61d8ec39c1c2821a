"""Effects of the trigger: notice, dispatch, launch, recover, on a real store with a fake launcher."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from icemirror.config_file.load import load_settings
from icemirror.errors import Transient
from icemirror.protocol.events import Completed, Leave, Pick, RunState, Started
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import SlotState, TableRow
from icemirror.telemetry import metric_names
from tests.unit.trigger.dispatch.dispatcher_harness import ORDERS, DispatcherHarness
from trigger.dispatch.launch_times import dispatch_when_due
from trigger.tables import registry


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DispatcherHarness]:
    harnesses: list[DispatcherHarness] = []
    monkeypatch.setattr(registry, "open_head_source", lambda properties, name: harnesses[0].catalogs[name])
    harnesses.append(DispatcherHarness(tmp_path))
    yield harnesses[0]
    harnesses[0].close()


def test_new_head_is_noticed_once_and_a_worker_is_launched_after_the_quiet_period(
    harness: DispatcherHarness,
) -> None:
    harness.sweep()
    harness.sweep(1.0)
    assert (harness.table().dirty, harness.launcher.launches) == (1, [])
    harness.sweep(1.0)
    assert harness.launcher.launches == ["default-0-1002000", "heavy-0-1002000"]
    assert harness.slot().state is SlotState.LAUNCHING
    assert harness.slot().run_id == "run-of-default-0-1002000"
    harness.sweep(1.0)
    assert len(harness.launcher.launches) == 2


def test_further_commits_restart_the_quiet_period(harness: DispatcherHarness) -> None:
    harness.sweep()
    harness.catalogs[None].heads["shop.orders_changelog"] = "m2"
    harness.sweep(1.5)
    harness.sweep(1.5)
    assert harness.table().dirty == 2
    assert not any(token.startswith("default") for token in harness.launcher.launches)
    harness.sweep(0.5)
    assert any(token.startswith("default") for token in harness.launcher.launches)
    noticed = harness.metrics.counted.count(metric_names.NOTICES.name)
    assert (noticed, harness.metrics.counted.count(metric_names.COALESCED.name)) == (3, 1)
    assert harness.metrics.counted.count(metric_names.LAUNCHES.name) == 2


def test_merged_table_is_not_written(harness: DispatcherHarness) -> None:
    harness.sweep()
    harness.sweep(2.0)
    me = harness.me()
    for event in (
        Started(harness.now, me),
        Pick(harness.now, me),
        Completed(harness.now, me, ORDERS, 1, harness.now, "m1"),
        Leave(harness.now, me),
    ):
        harness.apply(event)
    before = harness.store.load(ALL_ROWS)
    harness.sweep(50.0)
    assert harness.store.load(ALL_ROWS).tables[ORDERS].revision == before.tables[ORDERS].revision
    assert harness.slot().state is SlotState.FREE


def test_table_merged_long_ago_is_rechecked_without_a_new_commit(harness: DispatcherHarness) -> None:
    harness.sweep()
    harness.sweep(2.0)
    me = harness.me()
    harness.apply(Started(harness.now, me))
    harness.apply(Pick(harness.now, me))
    harness.apply(Completed(harness.now, me, ORDERS, 1, harness.now, "m1"))
    harness.apply(Leave(harness.now, me))
    launched = len(harness.launcher.launches)
    harness.sweep(harness.policy.recheck_seconds)
    harness.sweep(2.0)
    assert (harness.table().dirty, harness.table().covered) == (2, 1)
    assert len(harness.launcher.launches) > launched


def test_failed_launch_is_repeated_with_the_same_token(harness: DispatcherHarness) -> None:
    harness.launcher.fails = True
    harness.sweep()
    harness.sweep(2.0)
    token = harness.launcher.launches[0]
    harness.launcher.fails = False
    harness.sweep(1.0)
    assert harness.launcher.launches.count(token) == 1
    harness.sweep(4.0)
    assert harness.launcher.launches.count(token) == 2
    assert harness.slot().run_id == f"run-of-{token}"


def test_unrecorded_launch_is_found_and_not_repeated(harness: DispatcherHarness) -> None:
    harness.launcher.fails = True
    harness.sweep()
    harness.sweep(2.0)
    token = harness.launcher.launches[0]
    harness.launcher.by_token[token] = "found"
    harness.launcher.runs["found"] = RunState.RUNNING
    harness.sweep(0.1)
    assert (harness.slot().run_id, harness.launcher.launches.count(token)) == ("found", 1)


def test_dead_worker_is_replaced_and_its_table_gets_a_failure(harness: DispatcherHarness) -> None:
    harness.sweep()
    harness.sweep(2.0)
    me = harness.me()
    harness.apply(Started(harness.now, me))
    harness.apply(Pick(harness.now, me))
    harness.launcher.runs[me.run_id] = RunState.ENDED
    harness.sweep(0.5)
    assert (harness.slot().state, harness.slot().failures) == (SlotState.FREE, 0)
    assert (harness.table().owner, harness.table().failures) == (None, 1)
    harness.sweep(2.0)
    assert harness.slot().gen == me.gen + 1


def test_worker_without_heartbeat_for_a_lease_is_cancelled(harness: DispatcherHarness) -> None:
    harness.sweep()
    harness.sweep(2.0)
    me = harness.me()
    harness.apply(Started(harness.now, me))
    harness.apply(Pick(harness.now, me))
    harness.sweep(99.0)
    assert harness.slot().state is SlotState.RUNNING
    harness.sweep(2.0)
    assert me.run_id in harness.launcher.cancelled
    assert harness.table().owner is None


def test_unreachable_platform_changes_nothing_before_the_lease_expires(harness: DispatcherHarness) -> None:
    harness.sweep()
    harness.sweep(2.0)
    harness.apply(Started(harness.now, harness.me()))
    harness.launcher.silent = True
    harness.sweep(50.0)
    assert harness.slot().state is SlotState.RUNNING


def test_unreachable_catalog_stops_no_other_table(harness: DispatcherHarness) -> None:
    harness.catalogs["other"].error = Transient("no answer")
    harness.sweep()
    harness.sweep(2.0)
    row = harness.table("shop.items")
    assert (row.dirty, row.look_error is not None) == (0, True)
    assert harness.launcher.launches == ["default-0-1002000"]


def test_missing_changelog_is_recorded_in_its_row_until_it_exists(harness: DispatcherHarness) -> None:
    del harness.catalogs[None].heads["shop.orders_changelog"]
    harness.sweep()
    error = harness.table().look_error
    assert error is not None
    assert (error.kind, "no changelog shop.orders_changelog" in error.message) == ("invalid", True)
    harness.catalogs[None].heads["shop.orders_changelog"] = "m1"
    harness.sweep()
    assert (harness.table().look_error, harness.table().dirty) == (None, 1)


def test_lost_state_is_rebuilt_from_the_heads(harness: DispatcherHarness) -> None:
    harness.sweep()
    harness.store._connection.execute("DELETE FROM state")
    harness.sweep()
    assert harness.table().dirty == 1


def test_tables_that_are_no_longer_configured_are_skipped(harness: DispatcherHarness, tmp_path: Path) -> None:
    harness.store.compare_and_set(TableRow("gone.table", dirty=1))
    harness.catalogs[None].heads.clear()
    harness.catalogs["other"].heads.clear()
    harness.sweep(100.0)
    assert harness.launcher.launches == []
    assert load_settings(tmp_path / "icemirror.yaml", {}).tables


def test_one_shot_sweep_waits_for_the_quiet_period_and_launches(harness: DispatcherHarness) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        harness.now += seconds

    harness.dispatcher.sweep()
    dispatch_when_due(harness.dispatcher, harness.policy.max_wait_seconds, sleep)
    assert slept == [2.0]
    assert harness.launcher.launches == ["default-0-1002000", "heavy-0-1002000"]


def test_one_shot_sweep_does_not_wait_for_a_long_backoff(harness: DispatcherHarness) -> None:
    backing_off = TableRow(ORDERS, dirty=1, noticed_head="m1", not_before=harness.now + 300.0)
    harness.store.compare_and_set(backing_off)
    harness.catalogs["other"].heads.clear()
    harness.dispatcher.sweep()
    dispatch_when_due(harness.dispatcher, harness.policy.max_wait_seconds, lambda _: pytest.fail("it waits"))


def test_refused_launch_is_retried_and_its_reason_is_stored(harness: DispatcherHarness) -> None:
    harness.launcher.refuses = "the trigger needs emr-serverless:StartJobRun"
    harness.sweep()
    harness.sweep(3.0)
    assert (harness.slot().state, harness.slot().error) == (SlotState.LAUNCHING, None)
    token = harness.launcher.launches[0]
    harness.sweep(harness.policy.launch_lease_seconds)
    assert "emr-serverless:StartJobRun" in str(harness.slot().error)
    harness.launcher.refuses = ""
    harness.sweep(harness.policy.launch_lease_seconds)
    assert harness.slot().run_id == f"run-of-{token}"


def test_run_that_cannot_be_cancelled_does_not_stop_the_round(harness: DispatcherHarness) -> None:
    harness.sweep()
    harness.sweep(3.0)
    harness.apply(Started(harness.now, harness.me()))
    harness.launcher.silent = True
    harness.sweep(harness.policy.lease_seconds + 1.0)
    assert harness.launcher.cancelled
    assert harness.slot().state is SlotState.FREE
