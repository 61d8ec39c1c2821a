"""The long-running trigger: rounds, listeners, and an orderly end; on a real store with a fake launcher."""

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
from icemirror.settings.trigger import SqsSource
from icemirror.state.events import Completed, Leave, Pick, RunState, Started
from icemirror.state.reads import EVERYTHING
from icemirror.state.rows import SlotState
from tests.unit.trigger.fakes import DISCOVER, FakeHeads
from tests.unit.trigger.scene import BY_NAME, HEAD, Scene
from tests.unit.trigger.test_fleet import ORDERS
from trigger import registry as module
from trigger.intake import Intake
from trigger.listeners.listener import Desk
from trigger.listeners.sqs import SqsListener
from trigger.pulse import Pulse
from trigger.reporting import Reporting
from trigger.rounds import Rounds
from trigger.serve import ROUNDS, Bell, Service


def rounds_of(scene: Scene) -> Rounds:
    reporting = Reporting(scene.store, scene.metrics, "")
    return Rounds(scene.fleet, reporting, sweep_seconds=3600.0, clock=lambda: scene.now)


def finish(scene: Scene) -> None:
    """The worker that was launched merges its table and leaves."""
    me = scene.me()
    for told in (Started(scene.now, me), Pick(scene.now, me)):
        scene.tell(told)
    dirty = scene.table().dirty
    scene.tell(Completed(scene.now, me, ORDERS, dirty, scene.now, HEAD))
    scene.tell(Leave(scene.now, me))
    scene.launcher.runs[me.run_id] = RunState.GONE


class TestRounds:
    def test_the_first_round_looks_at_the_heads_and_the_next_launches_when_it_is_quiet(
        self, scene: Scene
    ) -> None:
        rounds = rounds_of(scene)
        assert rounds.once() == (2.0, True)
        assert (scene.table().dirty, scene.launcher.launches) == (1, [])
        scene.now += 2.0
        assert rounds.once()[1]
        assert len(scene.launcher.launches) == 2

    def test_a_round_without_work_asks_no_catalog(self, scene: Scene) -> None:
        rounds = rounds_of(scene)
        rounds.once()
        scene.catalogs[None].error = scene.catalogs["other"].error = Transient("nobody asked")
        for _ in range(20):
            scene.now += 15.0
            assert rounds.once()[1]
        assert scene.table().look_error is None

    def test_a_launcher_that_is_slow_with_every_slot_does_not_look_like_a_hang(self, scene: Scene) -> None:
        pulse = Pulse((ROUNDS,), 60.0, clock=lambda: scene.now)
        rounds = rounds_of(scene)
        rounds.alive = lambda: pulse.touch(ROUNDS)
        pulse.beat(ROUNDS, False, "away")
        rounds.once()
        scene.now += 2.0
        rounds.once()
        hung: list[str] = []
        real = scene.launcher.poll

        def slow(run_id: str) -> RunState:
            hung.extend(pulse.hanging())
            scene.now += 70.0
            return real(run_id)

        scene.launcher.poll = slow  # type: ignore[method-assign]
        scene.now += 5.0
        rounds.once()
        assert (hung, pulse.hanging()) == ([], [])
        assert pulse.unready() == "rounds: away", "that it lives does not say that it works"

    def test_a_lost_event_is_found_by_the_sweep(self, scene: Scene) -> None:
        rounds = rounds_of(scene)
        rounds.once()
        scene.now += 2.0
        rounds.once()
        finish(scene)
        scene.catalogs[None].heads["shop.orders_changelog"] = f"{HEAD}.later"
        scene.now += 1800.0
        rounds.once()
        assert scene.table().noticed_head == HEAD
        scene.now += 1800.0
        rounds.once()
        assert scene.table().noticed_head == f"{HEAD}.later"

    def test_a_catalog_that_was_away_is_asked_again_soon(self, scene: Scene) -> None:
        scene.catalogs[None].error = Transient("away")
        rounds = rounds_of(scene)
        assert rounds.once()[1]
        scene.catalogs[None].error = None
        scene.now += 30.0
        for catalog in scene.fleet.registry._looking._catalogs.values():
            catalog.not_before = 0.0
        rounds.once()
        assert scene.table().noticed_head == HEAD

    def test_a_run_that_ended_unseen_is_found(self, scene: Scene) -> None:
        rounds = rounds_of(scene)
        rounds.once()
        scene.now += 2.0
        rounds.once()
        me = scene.me()
        scene.tell(Started(scene.now, me))
        scene.launcher.runs[me.run_id] = RunState.GONE
        scene.now += 5.0
        rounds.once()
        assert scene.slot().state is SlotState.FREE

    def test_a_state_that_is_away_is_no_end(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        rounds = rounds_of(scene)

        def silent(_: object) -> None:
            raise Transient("locked")

        with monkeypatch.context() as patch:
            patch.setattr(type(scene.store), "load", silent_of(silent))
            assert rounds.once() == (5.0, False)
            assert rounds.problem == "locked"
        assert rounds.once()[1]
        assert rounds.problem == ""

    def test_a_new_changelog_is_looked_at_though_no_event_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        catalog = FakeHeads()
        monkeypatch.setattr(module, "open_source", lambda properties, name: catalog)
        scene = Scene(tmp_path, DISCOVER)
        rounds = rounds_of(scene)
        rounds.once()
        catalog.heads["raw.orders_changelog"] = HEAD
        scene.now += 30.0
        rounds.once()
        assert scene.table().noticed_head == HEAD
        scene.close()


def silent_of(raises: Any) -> Any:
    return lambda store, reads: raises(reads)


class Told:
    """A listener that hears one event, then waits for the end, and says that it ended."""

    name = "told"

    def __init__(self, desk: Desk) -> None:
        self.desk, self.ended = desk, False

    async def run(self, stop: asyncio.Event) -> None:
        await self.desk.take(self.name, [BY_NAME])
        self.desk.beat(self.name, True, "")
        await stop.wait()
        self.ended = True


class Broken:
    name = "broken"

    async def run(self, stop: asyncio.Event) -> None:
        raise BadConfig("no such topic")


class House:
    """A service on the loop that runs now."""

    def __init__(self, scene: Scene) -> None:
        self.bell = Bell(asyncio.get_running_loop())
        self.pulse = Pulse((ROUNDS, "told"), 120.0, clock=lambda: scene.now)
        self.desk = Desk(scene.intake, self.bell.ring, self.pulse.beat)
        self.told = Told(self.desk)
        self.rounds = rounds_of(scene)

    def service(self, intake: Intake, *more: Any) -> Service:
        return Service(intake, self.rounds, [self.told, *more], self.pulse, self.bell)


async def until(true: Any) -> None:
    for _ in range(500):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


def test_it_serves_until_it_is_told_to_stop_and_ends_in_order(scene: Scene) -> None:
    scene.fleet.policy = scene.policy = type(scene.policy)(quiet_seconds=0.0)

    async def live() -> None:
        house, stop = House(scene), asyncio.Event()
        assert house.pulse.unready(), "nothing has worked yet"
        task = asyncio.create_task(house.service(scene.intake).run(stop))
        await until(lambda: len(scene.launcher.launches) == 2 and not house.pulse.unready())
        stop.set()
        await asyncio.wait_for(task, 10)
        assert house.told.ended

    asyncio.run(live())
    assert scene.table().dirty >= 1


def test_a_part_that_cannot_go_on_ends_the_service_and_says_why(scene: Scene) -> None:
    async def live() -> None:
        house = House(scene)
        with pytest.raises(BadConfig, match="no such topic"):
            await asyncio.wait_for(house.service(scene.intake, Broken()).run(asyncio.Event()), 10)
        assert house.told.ended, "the others end in order"

    asyncio.run(live())


def test_health_is_about_hanging_and_readiness_about_work() -> None:
    now = 0.0
    pulse = Pulse(("kafka", ROUNDS), 120.0, clock=lambda: now)
    assert (pulse.hanging(), bool(pulse.unready())) == ([], True)
    pulse.beat("kafka", True)
    pulse.beat(ROUNDS, True)
    assert not pulse.unready()
    pulse.beat("kafka", False)
    assert (pulse.hanging(), bool(pulse.unready())) == ([], True)
    pulse.beat("kafka", False, "no broker is there")
    assert pulse.unready() == "kafka: no broker is there"
    pulse.beat("kafka", True)
    assert pulse.unready() == ""
    now = 121.0
    pulse.beat(ROUNDS, True)
    assert (pulse.hanging(), bool(pulse.unready())) == (["kafka"], True)
    assert pulse.unready() == "kafka: hangs"


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
            listener = SqsListener(SqsSource(queue_url=url or own), house.desk, client)
            task = asyncio.create_task(listener.run(stop))
            waiting = asyncio.create_task(until(done))
            await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
            stop.set()
            await asyncio.wait_for(task, 10)

        asyncio.run(live())

    def left(self, queue: Any) -> int:
        client, url = queue
        told = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return int(told["ApproximateNumberOfMessages"])

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
        monkeypatch.setattr("trigger.intake.apply", silent)
        self.listen(scene, queue, tried.is_set)
        assert self.left(queue) == 1
        assert not scene.store.load(EVERYTHING).tables

    def test_while_nothing_can_be_stored_the_queue_is_not_gone_through(
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
        monkeypatch.setattr("trigger.intake.apply", silent)
        end = time.monotonic() + 1.5
        self.listen(scene, queue, lambda: time.monotonic() > end)
        assert 1 <= len(received) <= 5

    def test_a_state_that_cannot_be_used_is_not_tried_for_ever(
        self, scene: Scene, queue: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client, url = queue

        def refused(*_: object) -> None:
            raise Invalid("DynamoDB refused to change the state")

        client.send_message(QueueUrl=url, MessageBody=BY_NAME.decode())
        monkeypatch.setattr("trigger.intake.apply", refused)
        end = time.monotonic() + 5.0
        with pytest.raises(Invalid, match="DynamoDB refused"):
            self.listen(scene, queue, lambda: time.monotonic() > end)
        assert self.left(queue) == 1

    def test_missing_credentials_and_regions_need_a_person(
        self, scene: Scene, queue: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = SimpleNamespace(receive_message=_raising(NoCredentialsError()))
        end = time.monotonic() + 5.0
        with pytest.raises(BadConfig, match="credentials"):
            self.listen(scene, (client, "q"), lambda: time.monotonic() > end)
        monkeypatch.delenv("AWS_DEFAULT_REGION")
        desk: Any = None  # the client comes first
        with pytest.raises(BadConfig, match=r"trigger\.sources\.sqs: .*region"):
            SqsListener(SqsSource(queue_url="q"), desk)

    def test_a_key_that_may_not_be_used_needs_a_person(self, scene: Scene) -> None:
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

    def test_a_queue_that_is_not_there_needs_a_person(self, scene: Scene, queue: Any) -> None:
        with pytest.raises(BadConfig, match="queue_url"):
            self.listen(scene, queue, lambda: False, "https://sqs.us-east-1.amazonaws.com/123456789012/none")
