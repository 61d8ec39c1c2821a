"""The trigger's effects: notice, dispatch, launch, recover, on a real store with a fake launcher."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from icemirror.config_file.load import load_settings
from icemirror.errors import Transient
from icemirror.protocol.events import Completed, Event, Leave, Pick, RunState, Started, WorkerId
from icemirror.protocol.reads import EVERYTHING
from icemirror.protocol.rows import SlotId, SlotRow, SlotState, TableRow
from icemirror.stores.apply import apply
from icemirror.stores.from_settings import policy_of
from icemirror.stores.sqlite import SqliteStore
from icemirror.telemetry import names
from icemirror.telemetry.metrics import NoMetrics
from icemirror.telemetry.names import Metric
from tests.unit.trigger.fakes import FakeHeads, FakeLauncher, settings
from trigger.dispatch.due import dispatch_when_due
from trigger.dispatch.fleet import Fleet
from trigger.tables import registry as module
from trigger.tables.registry import Registry

ORDERS = "shop.orders"


class Counts(NoMetrics):
    """Records the counted metrics."""

    def __init__(self) -> None:
        self.counted: list[str] = []

    def count(self, metric: Metric, amount: int = 1, **labels: str) -> None:
        super().count(metric, amount, **labels)
        self.counted.append(metric.name)


class Stage:
    """A fleet with one interesting table, a clock, and a worker played by the test."""

    def __init__(self, folder: Path) -> None:
        self.now = 1000.0
        self.catalogs = {
            None: FakeHeads({"shop.orders_changelog": "m1"}),
            "other": FakeHeads({"raw.items": "i1"}),
        }
        self.launcher, self.metrics = FakeLauncher(), Counts()
        given = settings(folder)
        self.store = SqliteStore(folder / "state.db")
        self.policy = replace(policy_of(given), quiet_seconds=2.0, lease_seconds=100.0)
        self.fleet = Fleet(
            registry=Registry(given),
            store=self.store,
            policy=self.policy,
            launcher=self.launcher,
            config=str(given.source_path),
            metrics=self.metrics,
            clock=lambda: self.now,
            jitter=lambda: 0.0,
        )

    def sweep(self, after: float = 0.0) -> None:
        self.now += after
        self.fleet.sweep()

    def table(self, name: str = ORDERS) -> TableRow:
        return self.store.load(EVERYTHING).tables[name]

    def slot(self, group: str = "default") -> SlotRow:
        return self.store.load(EVERYTHING).slots[SlotId(group, 0)]

    def me(self, group: str = "default") -> WorkerId:
        slot = self.slot(group)
        return WorkerId(slot.id, slot.gen, f"run-of-{group}-0-{slot.gen}")

    def apply(self, event: Event) -> None:
        apply(self.store, event, self.policy)

    def close(self) -> None:
        self.fleet.registry.close()
        self.store.close()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    stage: list[Stage] = []
    monkeypatch.setattr(module, "open_head_source", lambda properties, name: stage[0].catalogs[name])
    stage.append(Stage(tmp_path))
    yield stage[0]
    stage[0].close()


def test_a_moved_head_is_noticed_once_and_a_worker_launched_after_the_quiet_period(stage: Stage) -> None:
    stage.sweep()
    stage.sweep(1.0)
    assert (stage.table().dirty, stage.launcher.launches) == (1, [])
    stage.sweep(1.0)
    assert stage.launcher.launches == ["default-0-1002000", "heavy-0-1002000"]
    assert stage.slot().state is SlotState.LAUNCHING
    assert stage.slot().run_id == "run-of-default-0-1002000"
    stage.sweep(1.0)
    assert len(stage.launcher.launches) == 2


def test_further_commits_join_the_wait(stage: Stage) -> None:
    stage.sweep()
    stage.catalogs[None].heads["shop.orders_changelog"] = "m2"
    stage.sweep(1.5)
    stage.sweep(1.5)
    assert stage.table().dirty == 2
    assert not any(token.startswith("default") for token in stage.launcher.launches)
    stage.sweep(0.5)
    assert any(token.startswith("default") for token in stage.launcher.launches)
    noticed = stage.metrics.counted.count(names.NOTICES.name)
    assert (noticed, stage.metrics.counted.count(names.COALESCED.name)) == (3, 1)
    assert stage.metrics.counted.count(names.LAUNCHES.name) == 2


def test_merged_table_is_not_touched(stage: Stage) -> None:
    stage.sweep()
    stage.sweep(2.0)
    me = stage.me()
    for event in (
        Started(stage.now, me),
        Pick(stage.now, me),
        Completed(stage.now, me, ORDERS, 1, stage.now, "m1"),
        Leave(stage.now, me),
    ):
        stage.apply(event)
    before = stage.store.load(EVERYTHING)
    stage.sweep(50.0)
    assert stage.store.load(EVERYTHING).tables[ORDERS].revision == before.tables[ORDERS].revision
    assert stage.slot().state is SlotState.FREE


def test_table_merged_long_ago_is_rechecked_without_a_new_commit(stage: Stage) -> None:
    stage.sweep()
    stage.sweep(2.0)
    me = stage.me()
    stage.apply(Started(stage.now, me))
    stage.apply(Pick(stage.now, me))
    stage.apply(Completed(stage.now, me, ORDERS, 1, stage.now, "m1"))
    stage.apply(Leave(stage.now, me))
    launched = len(stage.launcher.launches)
    stage.sweep(stage.policy.recheck_seconds)
    stage.sweep(2.0)
    assert (stage.table().dirty, stage.table().covered) == (2, 1)
    assert len(stage.launcher.launches) > launched


def test_a_launch_that_failed_is_repeated_with_the_same_token(stage: Stage) -> None:
    stage.launcher.fails = True
    stage.sweep()
    stage.sweep(2.0)
    token = stage.launcher.launches[0]
    stage.launcher.fails = False
    stage.sweep(1.0)
    assert stage.launcher.launches.count(token) == 1
    stage.sweep(4.0)
    assert stage.launcher.launches.count(token) == 2
    assert stage.slot().run_id == f"run-of-{token}"


def test_a_launch_that_was_not_recorded_is_found_and_not_repeated(stage: Stage) -> None:
    stage.launcher.fails = True
    stage.sweep()
    stage.sweep(2.0)
    token = stage.launcher.launches[0]
    stage.launcher.by_token[token] = "found"
    stage.launcher.runs["found"] = RunState.RUNNING
    stage.sweep(0.1)
    assert (stage.slot().run_id, stage.launcher.launches.count(token)) == ("found", 1)


def test_a_dead_worker_is_replaced_and_its_table_charged(stage: Stage) -> None:
    stage.sweep()
    stage.sweep(2.0)
    me = stage.me()
    stage.apply(Started(stage.now, me))
    stage.apply(Pick(stage.now, me))
    stage.launcher.runs[me.run_id] = RunState.ENDED
    stage.sweep(0.5)
    assert (stage.slot().state, stage.slot().failures) == (SlotState.FREE, 0)
    assert (stage.table().owner, stage.table().failures) == (None, 1)
    stage.sweep(2.0)
    assert stage.slot().gen == me.gen + 1


def test_worker_without_heartbeat_for_a_lease_is_cancelled(stage: Stage) -> None:
    stage.sweep()
    stage.sweep(2.0)
    me = stage.me()
    stage.apply(Started(stage.now, me))
    stage.apply(Pick(stage.now, me))
    stage.sweep(99.0)
    assert stage.slot().state is SlotState.RUNNING
    stage.sweep(2.0)
    assert me.run_id in stage.launcher.cancelled
    assert stage.table().owner is None


def test_silent_platform_changes_nothing_before_the_lease_is_over(stage: Stage) -> None:
    stage.sweep()
    stage.sweep(2.0)
    stage.apply(Started(stage.now, stage.me()))
    stage.launcher.silent = True
    stage.sweep(50.0)
    assert stage.slot().state is SlotState.RUNNING


def test_a_catalog_that_is_down_stops_no_other_table(stage: Stage) -> None:
    stage.catalogs["other"].error = Transient("no answer")
    stage.sweep()
    stage.sweep(2.0)
    row = stage.table("shop.items")
    assert (row.dirty, row.look_error is not None) == (0, True)
    assert stage.launcher.launches == ["default-0-1002000"]


def test_missing_changelog_is_recorded_in_its_row_until_it_exists(stage: Stage) -> None:
    del stage.catalogs[None].heads["shop.orders_changelog"]
    stage.sweep()
    error = stage.table().look_error
    assert error is not None
    assert (error.kind, "no changelog shop.orders_changelog" in error.message) == ("invalid", True)
    stage.catalogs[None].heads["shop.orders_changelog"] = "m1"
    stage.sweep()
    assert (stage.table().look_error, stage.table().dirty) == (None, 1)


def test_lost_state_is_rebuilt_from_the_heads(stage: Stage) -> None:
    stage.sweep()
    stage.store._connection.execute("DELETE FROM state")
    stage.sweep()
    assert stage.table().dirty == 1


def test_tables_that_are_no_longer_configured_are_skipped(stage: Stage, tmp_path: Path) -> None:
    stage.store.compare_and_set(TableRow("gone.table", dirty=1))
    stage.catalogs[None].heads.clear()
    stage.catalogs["other"].heads.clear()
    stage.sweep(100.0)
    assert stage.launcher.launches == []
    assert load_settings(tmp_path / "icemirror.yaml", {}).tables


def test_one_shot_sweep_waits_for_the_quiet_period_and_launches(stage: Stage) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        stage.now += seconds

    stage.fleet.sweep()
    dispatch_when_due(stage.fleet, stage.policy.max_wait_seconds, sleep)
    assert slept == [2.0]
    assert stage.launcher.launches == ["default-0-1002000", "heavy-0-1002000"]


def test_one_shot_sweep_does_not_wait_for_a_long_backoff(stage: Stage) -> None:
    backing_off = TableRow(ORDERS, dirty=1, noticed_head="m1", not_before=stage.now + 300.0)
    stage.store.compare_and_set(backing_off)
    stage.catalogs["other"].heads.clear()
    stage.fleet.sweep()
    dispatch_when_due(stage.fleet, stage.policy.max_wait_seconds, lambda _: pytest.fail("it waits"))


def test_a_launch_that_is_refused_is_tried_again_and_its_reason_kept_for_status(stage: Stage) -> None:
    stage.launcher.refuses = "the trigger needs emr-serverless:StartJobRun"
    stage.sweep()
    stage.sweep(3.0)
    assert (stage.slot().state, stage.slot().error) == (SlotState.LAUNCHING, None)
    token = stage.launcher.launches[0]
    stage.sweep(stage.policy.launch_lease_seconds)
    assert "emr-serverless:StartJobRun" in str(stage.slot().error)
    stage.launcher.refuses = ""
    stage.sweep(stage.policy.launch_lease_seconds)
    assert stage.slot().run_id == f"run-of-{token}"


def test_run_that_cannot_be_cancelled_does_not_stop_the_round(stage: Stage) -> None:
    stage.sweep()
    stage.sweep(3.0)
    stage.apply(Started(stage.now, stage.me()))
    stage.launcher.silent = True
    stage.sweep(stage.policy.lease_seconds + 1.0)
    assert stage.launcher.cancelled
    assert stage.slot().state is SlotState.FREE
