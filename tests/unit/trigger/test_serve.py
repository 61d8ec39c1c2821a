"""The long-running trigger: rounds, listeners and shutdown, on a real store with a fake launcher."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import boto3
import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from moto import mock_aws

from icemirror.errors import BadConfig, Invalid, Transient
from icemirror.protocol.events import Completed, Leave, Pick, RunState, Started
from icemirror.protocol.reads import EVERYTHING
from icemirror.protocol.rows import SlotState
from icemirror.settings.trigger import SqsSource
from tests.unit.trigger.fakes import DISCOVER, FakeHeads
from tests.unit.trigger.scene import BY_NAME, HEAD, Scene
from tests.unit.trigger.test_fleet import ORDERS
from trigger.dispatch.ingest import Ingest
from trigger.listeners.listener import EventSink
from trigger.listeners.sqs import SqsListener
from trigger.service.health import Health
from trigger.service.rounds import Rounds
from trigger.service.serve import ROUNDS, Service, WakeSignal
from trigger.status.run_reporter import RunReporter
from trigger.tables import registry as module


def rounds_of(scene: Scene) -> Rounds:
    reporter = RunReporter(scene.store, scene.metrics, "")
    return Rounds(scene.fleet, reporter, sweep_seconds=3600.0, clock=lambda: scene.now)


def finish(scene: Scene) -> None:
    """Let the launched worker merge its table and leave."""
    me = scene.me()
    for event in (Started(scene.now, me), Pick(scene.now, me)):
        scene.apply(event)
    dirty = scene.table().dirty
    scene.apply(Completed(scene.now, me, ORDERS, dirty, scene.now, HEAD))
    scene.apply(Leave(scene.now, me))
    scene.launcher.runs[me.run_id] = RunState.GONE


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
        health.beat(ROUNDS, False, "away")
        rounds.run_once()
        scene.now += 2.0
        rounds.run_once()
        hung: list[str] = []
        real = scene.launcher.poll

        def slow(run_id: str) -> RunState:
            hung.extend(health.hanging())
            scene.now += 70.0
            return real(run_id)

        scene.launcher.poll = slow  # type: ignore[method-assign]
        scene.now += 5.0
        rounds.run_once()
        assert (hung, health.hanging()) == ([], [])
        assert health.unready() == "rounds: away", "a heartbeat does not mean that it works"

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
        for catalog in scene.fleet.registry._poller._states.values():
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
        scene.launcher.runs[me.run_id] = RunState.GONE
        scene.now += 5.0
        rounds.run_once()
        assert scene.slot().state is SlotState.FREE

    def test_unreachable_state_fails_the_round_only(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rounds = rounds_of(scene)

        def silent(_: object) -> None:
            raise Transient("locked")

        with monkeypatch.context() as patch:
            patch.setattr(type(scene.store), "load", silent_of(silent))
            assert rounds.run_once() is None
            assert rounds.pause_seconds(None) == 5.0
            assert rounds.problem == "locked"
        assert rounds.run_once() is not None
        assert rounds.problem == ""

    def test_new_changelog_is_swept_without_an_event(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        catalog = FakeHeads()
        monkeypatch.setattr(module, "open_head_source", lambda properties, name: catalog)
        scene = Scene(tmp_path, DISCOVER)
        rounds = rounds_of(scene)
        rounds.run_once()
        catalog.heads["raw.orders_changelog"] = HEAD
        scene.now += 30.0
        rounds.run_once()
        assert scene.table().noticed_head == HEAD
        scene.close()


def silent_of(raises: Any) -> Any:
    return lambda store, reads: raises(reads)


class OneEvent:
    """A listener that receives one event, then waits for the stop and records it."""

    name = "one-event"

    def __init__(self, sink: EventSink) -> None:
        self.sink, self.ended = sink, False

    async def run(self, stop: asyncio.Event) -> None:
        await self.sink.accept(self.name, [BY_NAME])
        self.sink.beat(self.name, True, "")
        await stop.wait()
        self.ended = True


class Broken:
    name = "broken"

    async def run(self, stop: asyncio.Event) -> None:
        raise BadConfig("no such topic")


class House:
    """A service on the running loop."""

    def __init__(self, scene: Scene) -> None:
        self.wake_signal = WakeSignal(asyncio.get_running_loop())
        self.health = Health((ROUNDS, "one-event"), 120.0, clock=lambda: scene.now)
        self.sink = EventSink(scene.ingest, self.wake_signal.send, self.health.beat)
        self.listener = OneEvent(self.sink)
        self.rounds = rounds_of(scene)

    def service(self, ingest: Ingest, *more: Any) -> Service:
        return Service(ingest, self.rounds, [self.listener, *more], self.health, self.wake_signal)


async def until(true: Any) -> None:
    for _ in range(500):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("timed out")


def test_service_runs_until_it_is_stopped_and_shuts_down_cleanly(scene: Scene) -> None:
    scene.fleet.policy = scene.policy = type(scene.policy)(quiet_seconds=0.0)

    async def live() -> None:
        house, stop = House(scene), asyncio.Event()
        assert house.health.unready(), "nothing has worked yet"
        task = asyncio.create_task(house.service(scene.ingest).run(stop))
        await until(lambda: len(scene.launcher.launches) == 2 and not house.health.unready())
        stop.set()
        await asyncio.wait_for(task, 10)
        assert house.listener.ended

    asyncio.run(live())
    assert scene.table().dirty >= 1


def test_failed_part_ends_the_service_with_its_error(scene: Scene) -> None:
    async def live() -> None:
        house = House(scene)
        with pytest.raises(BadConfig, match="no such topic"):
            await asyncio.wait_for(house.service(scene.ingest, Broken()).run(asyncio.Event()), 10)
        assert house.listener.ended, "the other parts shut down cleanly"

    asyncio.run(live())


def test_health_is_about_hanging_and_readiness_about_work() -> None:
    now = 0.0
    health = Health(("kafka", ROUNDS), 120.0, clock=lambda: now)
    assert (health.hanging(), bool(health.unready())) == ([], True)
    health.beat("kafka", True)
    health.beat(ROUNDS, True)
    assert not health.unready()
    health.beat("kafka", False)
    assert (health.hanging(), bool(health.unready())) == ([], True)
    health.beat("kafka", False, "no broker answers")
    assert health.unready() == "kafka: no broker answers"
    health.beat("kafka", True)
    assert health.unready() == ""
    now = 121.0
    health.beat(ROUNDS, True)
    assert (health.hanging(), bool(health.unready())) == (["kafka"], True)
    assert health.unready() == "kafka: hangs"


def _raising(error: Exception) -> Callable[..., NoReturn]:
    def fail(**_: object) -> NoReturn:
        raise error

    return fail


def _answered(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "m"}}, "ReceiveMessage")


class TestSqs:
    @pytest.fixture
    def queue(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        for name in ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "us-east-1")
        monkeypatch.setattr("trigger.listeners.sqs._WAIT_SECONDS", 0)
        with mock_aws():
            client = boto3.client("sqs")
            url = client.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "0"})["QueueUrl"]
            yield client, url

    def listen(self, scene: Scene, queue: Any, done: Any, url: str | None = None) -> None:
        client, own = queue

        async def live() -> None:
            stop, house = asyncio.Event(), House(scene)
            listener = SqsListener(SqsSource(queue_url=url or own), house.sink, client)
            task = asyncio.create_task(listener.run(stop))
            waiting = asyncio.create_task(until(done))
            await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
            stop.set()
            await asyncio.wait_for(task, 10)

        asyncio.run(live())

    def left(self, queue: Any) -> int:
        client, url = queue
        attributes = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return int(attributes["ApproximateNumberOfMessages"])

    def test_a_message_is_deleted_when_its_notice_is_stored_and_poison_becomes_a_letter(
        self, scene: Scene, queue: Any
    ) -> None:
        client, url = queue
        for body in (BY_NAME.decode(), "poison", BY_NAME.decode()):
            client.send_message(QueueUrl=url, MessageBody=body)
        self.listen(scene, queue, lambda: self.left(queue) == 0)
        assert self.left(queue) == 0
        assert scene.table().dirty >= 1
        assert [letter.body for letter in scene.store.letters()] == ["poison"]

    def test_a_message_whose_notice_is_not_stored_stays(
        self, scene: Scene, queue: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client, url = queue
        tried = threading.Event()

        def silent(*_: object) -> None:
            tried.set()
            raise Transient("locked")

        client.send_message(QueueUrl=url, MessageBody=BY_NAME.decode())
        monkeypatch.setattr("trigger.dispatch.ingest.apply", silent)
        self.listen(scene, queue, tried.is_set)
        assert self.left(queue) == 1
        assert not scene.store.load(EVERYTHING).tables

    def test_queue_is_not_drained_while_nothing_can_be_stored(
        self, scene: Scene, queue: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client, url = queue
        received: list[int] = []
        receive = client.receive_message

        def counted(**asked: Any) -> Any:
            received.append(1)
            return receive(**asked)

        def silent(*_: object) -> None:
            raise Transient("locked")

        client.send_message(QueueUrl=url, MessageBody=BY_NAME.decode())
        monkeypatch.setattr(client, "receive_message", counted)
        monkeypatch.setattr("trigger.dispatch.ingest.apply", silent)
        end = time.monotonic() + 1.5
        self.listen(scene, queue, lambda: time.monotonic() > end)
        assert 1 <= len(received) <= 5

    def test_unusable_state_ends_the_listener(
        self, scene: Scene, queue: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client, url = queue

        def refused(*_: object) -> None:
            raise Invalid("DynamoDB refused to change the state")

        client.send_message(QueueUrl=url, MessageBody=BY_NAME.decode())
        monkeypatch.setattr("trigger.dispatch.ingest.apply", refused)
        end = time.monotonic() + 5.0
        with pytest.raises(Invalid, match="DynamoDB refused"):
            self.listen(scene, queue, lambda: time.monotonic() > end)
        assert self.left(queue) == 1

    def test_missing_credentials_and_region_are_bad_configuration(
        self, scene: Scene, queue: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = SimpleNamespace(receive_message=_raising(NoCredentialsError()))
        end = time.monotonic() + 5.0
        with pytest.raises(BadConfig, match="credentials"):
            self.listen(scene, (client, "q"), lambda: time.monotonic() > end)
        monkeypatch.delenv("AWS_DEFAULT_REGION")
        sink: Any = None  # the client comes first
        with pytest.raises(BadConfig, match=r"trigger\.sources\.sqs: .*region"):
            SqsListener(SqsSource(queue_url="q"), sink)

    def test_forbidden_key_is_bad_configuration(self, scene: Scene) -> None:
        client = SimpleNamespace(receive_message=_raising(_answered("KMS.AccessDeniedException")))
        end = time.monotonic() + 5.0
        with pytest.raises(BadConfig, match=r"KMS\.AccessDeniedException"):
            self.listen(scene, (client, "q"), lambda: time.monotonic() > end)

    def test_a_token_that_has_expired_is_waited_for(self, scene: Scene) -> None:
        asked: list[object] = []

        def receive(**named: object) -> dict[str, object]:
            asked.append(named)
            if len(asked) == 1:
                raise _answered("ExpiredToken")
            return {}

        self.listen(scene, (SimpleNamespace(receive_message=receive), "q"), lambda: len(asked) > 1)

    def test_missing_queue_is_bad_configuration(self, scene: Scene, queue: Any) -> None:
        with pytest.raises(BadConfig, match="queue_url"):
            self.listen(scene, queue, lambda: False, "https://sqs.us-east-1.amazonaws.com/123456789012/none")
