"""The embedded trigger: rounds until it is stopped, or until all tables are merged or blocked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from icemirror.errors import Exit, IcemirrorError, Invalid, Transient
from icemirror.protocol.events import Completed, Failed, Pick, Started, WorkerId
from icemirror.protocol.rows import Rows, SlotState, TableRow
from icemirror.result import TableResult
from icemirror.stores.apply import apply
from icemirror.stores.from_settings import build_policy
from icemirror.stores.sqlite import SqliteStore
from icemirror.stores.store import TurnResult
from icemirror.telemetry import metric_names
from icemirror.telemetry.metric_names import Metric
from icemirror.telemetry.metrics import NoMetrics
from tests.unit.icemirror.protocol.samples import INVALID, TRANSIENT
from tests.unit.trigger.fakes import DISCOVER, TABLES, FakeHeads, FakeLauncher, settings
from trigger.dispatch.dispatcher import Dispatcher
from trigger.service import watch as watch_module
from trigger.service.watch import WatchLoop
from trigger.status.run_reporter import RunReporter
from trigger.tables import registry as registry_module
from trigger.tables.registry import TableRegistry


class RecordingMetrics(NoMetrics):
    def __init__(self) -> None:
        self.recorded: list[tuple[str, dict[str, str]]] = []

    def count(self, metric: Metric, amount: int = 1, **labels: str) -> None:
        super().count(metric, amount, **labels)
        self.recorded.append((metric.name, labels))

    def gauge(self, metric: Metric, value: float, **labels: str) -> None:
        super().gauge(metric, value, **labels)
        self.recorded.append((metric.name, labels))


class Scene:
    """A watch, catalogs, and a worker that runs after every round."""

    def __init__(self, folder: Path, tables: str) -> None:
        config = settings(folder, tables)
        self.catalogs = {
            None: FakeHeads({"shop.orders_changelog": "m1"}),
            "other": FakeHeads({"raw.items": "i1"}),
        }
        self.store, self.metrics = SqliteStore(folder / "state.db"), RecordingMetrics()
        self.policy = replace(
            build_policy(config),
            quiet_seconds=0.0,
            max_failures=2,
            backoff_seconds=0.01,
            max_backoff_seconds=0.01,
        )
        self.stop = threading.Event()
        self.outcome: Callable[[WorkerId, str, int], object] = self.complete
        dispatcher = Dispatcher(
            TableRegistry(config), self.store, self.policy, FakeLauncher(), "c", self.metrics
        )
        self.watch = WatchLoop(
            dispatcher=dispatcher,
            reporter=RunReporter(self.store, self.metrics, ""),
            poll_seconds=0.005,
            until_idle=True,
            stop=self.stop,
            on_round=self.work,
        )

    def work(self, rows: Rows) -> None:
        for slot in rows.slots.values():
            if slot.state is SlotState.LAUNCHING and slot.run_id:
                apply(self.store, Started(time.time(), WorkerId(slot.id, slot.gen, slot.run_id)), self.policy)
            elif slot.state is not SlotState.FREE and slot.run_id:
                me = WorkerId(slot.id, slot.gen, slot.run_id)
                picked = apply(self.store, Pick(time.time(), me), self.policy).new_row
                if isinstance(picked, TableRow):
                    self.outcome(me, picked.name, picked.dirty)

    def complete(self, me: WorkerId, name: str, dirty: int) -> None:
        apply(self.store, Completed(time.time(), me, name, dirty, 1.0, "merged"), self.policy)
        result = TableResult(table=name, outcome="up-to-date", seconds=0.1)
        self.store.record_result(TurnResult(me.run_id, 1.0, result))

    def close(self) -> None:
        self.watch.dispatcher.registry.close()
        self.store.close()


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Scene]]:
    scenes: list[Scene] = []
    monkeypatch.setattr(watch_module, "_MIN_CATALOG_TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr("trigger.service.rounds._REFRESH_RETRY_SECONDS", 0.01)
    monkeypatch.setattr("trigger.heads.poll_heads._MAX_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(registry_module, "open_head_source", lambda _, name: scenes[-1].catalogs[name])

    def make(tables: str = TABLES) -> Scene:
        scenes.append(Scene(tmp_path, tables))
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.close()


Build = Callable[..., Scene]


def test_watch_ends_with_0_when_every_mirror_has_reached_its_head(build: Build) -> None:
    scene = build()
    assert scene.watch.run() is Exit.DONE
    assert set(scene.watch.progress_by_table) == {"shop.orders", "shop.items"}


def test_job_results_and_lags_become_metrics(build: Build) -> None:
    scene = build()
    scene.watch.run()
    for metric in (metric_names.TABLE_SUCCESS, metric_names.LAG_SECONDS, metric_names.NOTICES):
        assert (metric.name, {"table": "shop.orders"}) in scene.metrics.recorded


def test_blocked_table_ends_the_watch_with_3_after_the_others_are_merged(build: Build) -> None:
    scene = build()
    complete = scene.complete

    def outcome(me: WorkerId, name: str, dirty: int) -> None:
        if name == "shop.orders":
            apply(scene.store, Failed(time.time(), me, name, INVALID, 0.0), scene.policy)
        else:
            complete(me, name, dirty)

    scene.outcome = outcome
    assert scene.watch.run() is Exit.BLOCKED
    assert (metric_names.QUARANTINED.name, {"table": "shop.orders"}) in scene.metrics.recorded


def test_persistent_transient_failures_end_the_watch_with_4(build: Build) -> None:
    scene = build()
    scene.outcome = lambda me, name, dirty: apply(
        scene.store, Failed(time.time(), me, name, TRANSIENT, 0.0), scene.policy
    )
    assert scene.watch.run() is Exit.RETRY_LATER


def test_missing_changelog_ends_the_watch_with_3(build: Build) -> None:
    scene = build()
    scene.catalogs["other"].heads.clear()
    assert scene.watch.run() is Exit.BLOCKED


def test_silent_catalog_ends_the_watch_with_4_unless_it_recovers(build: Build) -> None:
    scene = build()
    scene.catalogs["other"].error = Transient("no answer")
    assert scene.watch.run() is Exit.RETRY_LATER
    scene.catalogs["other"].error = None
    time.sleep(0.05)  # the pause before that catalog is queried again
    assert scene.watch.run() is Exit.DONE


def test_single_failed_poll_does_not_end_the_watch(build: Build) -> None:
    scene = build()
    other = scene.catalogs["other"]
    other.error = Transient("no answer")

    def recover() -> None:
        other.before = lambda: setattr(other, "error", None)

    other.before = recover
    assert scene.watch.run() is Exit.DONE


def test_failed_discovery_does_not_count_as_an_empty_lake(build: Build) -> None:
    scene = build(DISCOVER)
    scene.catalogs[None].error = Transient("no answer")
    assert scene.watch.run() is Exit.RETRY_LATER
    scene.catalogs[None].error = Invalid("two changelogs for one mirror")
    scene.watch._rounds._refresh_at = 0.0
    assert scene.watch.run() is Exit.BLOCKED


def test_watch_ends_when_stop_is_set(build: Build) -> None:
    scene = build()
    scene.watch.until_idle = False
    scene.watch.on_round = lambda _: scene.stop.set()
    assert scene.watch.run() is Exit.DONE


def test_locked_state_is_retried_and_damaged_state_is_not(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = build()
    load, errors = scene.store.load, list[IcemirrorError]([Transient("locked")])

    def fail_once(reads: object) -> Rows:
        if errors:
            raise errors.pop()
        return load(reads)  # type: ignore[arg-type]

    problems: list[str] = []

    class RecordingEvent(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            problems.append(scene.watch.problem)
            return super().wait(timeout)

    monkeypatch.setattr(scene.store, "load", fail_once)
    scene.watch.stop = RecordingEvent()
    assert scene.watch.run() is Exit.DONE
    assert (problems[0], set(problems[1:])) == ("rounds: locked", {""})
    errors.append(Invalid("damaged"))
    with pytest.raises(Invalid):
        scene.watch.run()
