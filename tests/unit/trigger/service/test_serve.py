"""The long-running trigger: rounds, listeners and shutdown, on a real store with a fake launcher."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from icemirror.errors import BadConfig, Transient
from icemirror.protocol.events import Completed, Leave, Pick, RunState, Started
from icemirror.protocol.rows import SlotState
from tests.unit.trigger.dispatch.dispatcher_harness import ORDERS
from tests.unit.trigger.fakes import DISCOVER, FakeHeads
from tests.unit.trigger.scene import HEAD, Scene
from tests.unit.trigger.service.service_harness import ServiceHarness, rounds_of
from trigger.service.health import ROUNDS, Health
from trigger.tables import registry


def finish(scene: Scene) -> None:
    """Let the launched worker merge its table and leave."""
    me = scene.me()
    for event in (Started(scene.now, me), Pick(scene.now, me)):
        scene.apply(event)
    dirty = scene.table().dirty
    scene.apply(Completed(scene.now, me, ORDERS, dirty, scene.now, HEAD))
    scene.apply(Leave(scene.now, me))
    scene.launcher.runs[me.run_id] = RunState.ENDED


class TestRounds:
    def test_first_round_polls_heads_and_next_launches_after_the_quiet_period(self, scene: Scene) -> None:
        rounds = rounds_of(scene)
        assert rounds.pause_seconds(rounds.run_once()) == 2.0
        assert (scene.table().dirty, scene.launcher.launches) == (1, [])
        scene.now += 2.0
        assert rounds.run_once() is not None
        assert len(scene.launcher.launches) == 2

    def test_round_without_work_calls_no_catalog(self, scene: Scene) -> None:
        rounds = rounds_of(scene)
        rounds.run_once()
        scene.catalogs[None].error = scene.catalogs["other"].error = Transient("no call expected")
        for _ in range(20):
            scene.now += 15.0
            assert rounds.run_once() is not None
        assert scene.table().look_error is None

    def test_slow_launcher_does_not_count_as_a_hang(self, scene: Scene) -> None:
        health = Health((ROUNDS,), 60.0, clock=lambda: scene.now)
        rounds = rounds_of(scene)
        rounds.heartbeat = lambda: health.touch(ROUNDS)
        health.record_heartbeat(ROUNDS, False, "away")
        rounds.run_once()
        scene.now += 2.0
        rounds.run_once()
        hung: list[str] = []
        poll = scene.launcher.poll

        def poll_slowly(run_id: str) -> RunState:
            hung.extend(health.hanging_components())
            scene.now += 70.0
            return poll(run_id)

        scene.launcher.poll = poll_slowly  # type: ignore[method-assign]
        scene.now += 5.0
        rounds.run_once()
        assert (hung, health.hanging_components()) == ([], [])
        assert health.describe_unready() == "rounds: away", "a heartbeat does not make it ready"

    def test_sweep_finds_a_commit_whose_event_was_lost(self, scene: Scene) -> None:
        rounds = rounds_of(scene)
        rounds.run_once()
        scene.now += 2.0
        rounds.run_once()
        finish(scene)
        scene.catalogs[None].heads["shop.orders_changelog"] = f"{HEAD}.later"
        scene.now += 1800.0
        rounds.run_once()
        assert scene.table().noticed_head == HEAD
        scene.now += 1800.0
        rounds.run_once()
        assert scene.table().noticed_head == f"{HEAD}.later"

    def test_unreachable_catalog_is_swept_again_soon(self, scene: Scene) -> None:
        scene.catalogs[None].error = Transient("away")
        rounds = rounds_of(scene)
        assert rounds.run_once() is not None
        scene.catalogs[None].error = None
        scene.now += 30.0
        for catalog in scene.dispatcher.registry._poller._states.values():
            catalog.not_before = 0.0
        rounds.run_once()
        assert scene.table().noticed_head == HEAD

    def test_round_finds_a_run_that_ended(self, scene: Scene) -> None:
        rounds = rounds_of(scene)
        rounds.run_once()
        scene.now += 2.0
        rounds.run_once()
        me = scene.me()
        scene.apply(Started(scene.now, me))
        scene.launcher.runs[me.run_id] = RunState.ENDED
        scene.now += 5.0
        rounds.run_once()
        assert scene.slot().state is SlotState.FREE

    def test_unreachable_state_fails_the_round_only(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rounds = rounds_of(scene)

        def fail(_: object) -> None:
            raise Transient("locked")

        with monkeypatch.context() as patch:
            patch.setattr(type(scene.store), "load", load_with(fail))
            assert rounds.run_once() is None
            assert rounds.pause_seconds(None) == 5.0
            assert rounds.problem == "locked"
        assert rounds.run_once() is not None
        assert rounds.problem == ""

    def test_new_changelog_is_swept_without_an_event(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        catalog = FakeHeads()
        monkeypatch.setattr(registry, "open_head_source", lambda properties, name: catalog)
        scene = Scene(tmp_path, DISCOVER)
        rounds = rounds_of(scene)
        rounds.run_once()
        catalog.heads["raw.orders_changelog"] = HEAD
        scene.now += 30.0
        rounds.run_once()
        assert scene.table().noticed_head == HEAD
        scene.close()


def load_with(fail: Any) -> Any:
    return lambda store, reads: fail(reads)


class FailingListener:
    name = "broken"

    async def run(self, stop: asyncio.Event) -> None:
        raise BadConfig("no such topic")


def test_failed_listener_ends_the_service_with_its_error(scene: Scene) -> None:
    async def run_service() -> None:
        harness = ServiceHarness(scene)
        with pytest.raises(BadConfig, match="no such topic"):
            await asyncio.wait_for(harness.service(scene.ingest, FailingListener()).run(asyncio.Event()), 10)
        assert harness.listener.ended, "the other listeners shut down cleanly"

    asyncio.run(run_service())


def test_hanging_and_readiness_are_reported_separately() -> None:
    now = 0.0
    health = Health(("kafka", ROUNDS), 120.0, clock=lambda: now)
    assert (health.hanging_components(), bool(health.describe_unready())) == ([], True)
    health.record_heartbeat("kafka", True)
    health.record_heartbeat(ROUNDS, True)
    assert not health.describe_unready()
    health.record_heartbeat("kafka", False)
    assert (health.hanging_components(), bool(health.describe_unready())) == ([], True)
    health.record_heartbeat("kafka", False, "no broker answers")
    assert health.describe_unready() == "kafka: no broker answers"
    health.record_heartbeat("kafka", True)
    assert health.describe_unready() == ""
    now = 121.0
    health.record_heartbeat(ROUNDS, True)
    assert (health.hanging_components(), bool(health.describe_unready())) == (["kafka"], True)
    assert health.describe_unready() == "kafka: hangs"
