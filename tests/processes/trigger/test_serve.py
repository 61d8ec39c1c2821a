"""The whole service of `serve`, and its listener on moto's SQS."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NoReturn

import boto3
import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from moto import mock_aws

from icemirror.errors import BadConfig, Invalid, Transient
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.settings.trigger import SqsSource
from tests.unit.trigger.scene import BY_NAME, Scene
from tests.unit.trigger.service.service_harness import ServiceHarness
from trigger.listeners.sqs import SqsListener


async def until(condition: Any) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("timed out")


def test_service_runs_until_it_is_stopped_and_shuts_down_cleanly(scene: Scene) -> None:
    scene.dispatcher.policy = scene.policy = type(scene.policy)(quiet_seconds=0.0)

    async def run() -> None:
        house, stop = ServiceHarness(scene), asyncio.Event()
        assert house.health.describe_unready(), "no round has succeeded yet"
        task = asyncio.create_task(house.service(scene.ingest).run(stop))
        await until(lambda: len(scene.launcher.launches) == 2 and not house.health.describe_unready())
        stop.set()
        await asyncio.wait_for(task, 10)
        assert house.listener.ended

    asyncio.run(run())
    assert scene.table().dirty >= 1


def _raising(error: Exception) -> Callable[..., NoReturn]:
    def fail(**_: object) -> NoReturn:
        raise error

    return fail


def _client_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "m"}}, "ReceiveMessage")


class TestSqs:
    @pytest.fixture
    def queue(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        for name in ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "us-east-1")
        monkeypatch.setattr("trigger.listeners.sqs._LONG_POLL_SECONDS", 0)
        with mock_aws():
            client = boto3.client("sqs")
            url = client.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "0"})["QueueUrl"]
            yield client, url

    def listen(self, scene: Scene, queue: Any, done: Any, url: str | None = None) -> None:
        client, queue_url = queue

        async def run() -> None:
            stop, house = asyncio.Event(), ServiceHarness(scene)
            listener = SqsListener(SqsSource(queue_url=url or queue_url), house.sink, client)
            task = asyncio.create_task(listener.run(stop))
            waiting = asyncio.create_task(until(done))
            await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
            stop.set()
            await asyncio.wait_for(task, 10)

        asyncio.run(run())

    def remaining(self, queue: Any) -> int:
        client, url = queue
        attributes = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return int(attributes["ApproximateNumberOfMessages"])

    def test_message_is_deleted_after_its_notice_is_stored_and_a_malformed_one_becomes_a_letter(
        self, scene: Scene, queue: Any
    ) -> None:
        client, url = queue
        for body in (BY_NAME.decode(), "poison", BY_NAME.decode()):
            client.send_message(QueueUrl=url, MessageBody=body)
        self.listen(scene, queue, lambda: self.remaining(queue) == 0)
        assert self.remaining(queue) == 0
        assert scene.table().dirty >= 1
        assert [letter.body for letter in scene.store.letters()] == ["poison"]

    def test_message_whose_notice_is_not_stored_stays_in_the_queue(
        self, scene: Scene, queue: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client, url = queue
        attempted = threading.Event()

        def fail(*_: object) -> None:
            attempted.set()
            raise Transient("locked")

        client.send_message(QueueUrl=url, MessageBody=BY_NAME.decode())
        monkeypatch.setattr("trigger.dispatch.ingest.apply", fail)
        self.listen(scene, queue, attempted.is_set)
        assert self.remaining(queue) == 1
        assert not scene.store.load(ALL_ROWS).tables

    def test_queue_is_not_drained_while_nothing_can_be_stored(
        self, scene: Scene, queue: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client, url = queue
        received: list[int] = []
        receive = client.receive_message

        def counting(**arguments: Any) -> Any:
            received.append(1)
            return receive(**arguments)

        def fail(*_: object) -> None:
            raise Transient("locked")

        client.send_message(QueueUrl=url, MessageBody=BY_NAME.decode())
        monkeypatch.setattr(client, "receive_message", counting)
        monkeypatch.setattr("trigger.dispatch.ingest.apply", fail)
        end = time.monotonic() + 1.5
        self.listen(scene, queue, lambda: time.monotonic() > end)
        assert 1 <= len(received) <= 5

    def test_unusable_state_ends_the_listener(
        self, scene: Scene, queue: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client, url = queue

        def refuse(*_: object) -> None:
            raise Invalid("DynamoDB refused to change the state")

        client.send_message(QueueUrl=url, MessageBody=BY_NAME.decode())
        monkeypatch.setattr("trigger.dispatch.ingest.apply", refuse)
        end = time.monotonic() + 5.0
        with pytest.raises(Invalid, match="DynamoDB refused"):
            self.listen(scene, queue, lambda: time.monotonic() > end)
        assert self.remaining(queue) == 1

    def test_missing_credentials_and_region_are_bad_configuration(
        self, scene: Scene, queue: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = SimpleNamespace(receive_message=_raising(NoCredentialsError()))
        end = time.monotonic() + 5.0
        with pytest.raises(BadConfig, match="credentials"):
            self.listen(scene, (client, "q"), lambda: time.monotonic() > end)
        monkeypatch.delenv("AWS_DEFAULT_REGION")
        sink: Any = None  # never used: the client is opened first
        with pytest.raises(BadConfig, match=r"trigger\.sources\.sqs: .*region"):
            SqsListener(SqsSource(queue_url="q"), sink)

    def test_forbidden_key_is_bad_configuration(self, scene: Scene) -> None:
        client = SimpleNamespace(receive_message=_raising(_client_error("KMS.AccessDeniedException")))
        end = time.monotonic() + 5.0
        with pytest.raises(BadConfig, match=r"KMS\.AccessDeniedException"):
            self.listen(scene, (client, "q"), lambda: time.monotonic() > end)

    def test_expired_token_is_retried(self, scene: Scene) -> None:
        requests: list[object] = []

        def receive(**named: object) -> dict[str, object]:
            requests.append(named)
            if len(requests) == 1:
                raise _client_error("ExpiredToken")
            return {}

        self.listen(scene, (SimpleNamespace(receive_message=receive), "q"), lambda: len(requests) > 1)

    def test_missing_queue_is_bad_configuration(self, scene: Scene, queue: Any) -> None:
        with pytest.raises(BadConfig, match="queue_url"):
            self.listen(scene, queue, lambda: False, "https://sqs.us-east-1.amazonaws.com/123456789012/none")
