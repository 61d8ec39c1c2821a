"""`/readyz` distinguishes idle and unreachable brokers, which aiokafka does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError

from icemirror.settings.trigger import KafkaSource
from trigger.dispatch.ingest import Accepted
from trigger.listeners import kafka as module
from trigger.listeners.kafka import KafkaListener
from trigger.listeners.listener import EventSink
from trigger.service.health import Health

SOURCE = KafkaSource.model_validate({"bootstrap_servers": "nobody:9092", "topics": ["t"]})
PARTITION = TopicPartition("t", 0)


class FakeRecord:
    value, headers, offset = b"{}", (), 7


class FakeConsumer:
    """Behaves like aiokafka's consumer: without brokers it returns neither records nor an error."""

    def __init__(self) -> None:
        self.assigned = frozenset({PARTITION})
        self.error: Exception | None = None
        self.hangs = False
        self.batches: list[dict[TopicPartition, list[FakeRecord]]] = []
        self.commits = 0
        self.stopped = 0
        self.stops_badly = False
        self._client = self
        self.closed = False

    def subscribe(self, topics: list[str], listener: object) -> None:
        assert topics == ["t"]

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        self.stopped += 1
        if self.stops_badly:  # like aiokafka without brokers
            raise asyncio.CancelledError

    async def close(self) -> None:
        self.closed = True

    async def getmany(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[FakeRecord]]:
        await asyncio.sleep(0.005)
        return self.batches.pop(0) if self.batches else {}

    def assignment(self) -> frozenset[TopicPartition]:
        return self.assigned

    async def end_offsets(self, partitions: frozenset[TopicPartition]) -> dict[TopicPartition, int]:
        assert partitions == self.assigned
        await self._request()
        return {PARTITION: 7}

    async def topics(self) -> set[str]:
        assert not self.assigned
        await self._request()
        return {"t"}

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        await self._request()
        self.commits += 1

    async def _request(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error


class FakeSink:
    """Accepts every event."""

    def __init__(self, health: Health) -> None:
        self.record_heartbeat = health.record_heartbeat

    async def accept(self, source: str, bodies: list[bytes]) -> list[Accepted]:
        return [Accepted() for _ in bodies]


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("the condition was never met")


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> FakeConsumer:
    consumer = FakeConsumer()
    monkeypatch.setattr(module, "AIOKafkaConsumer", lambda **_: consumer)
    monkeypatch.setattr(module, "connection_arguments", lambda *_: {})
    for name, seconds in (
        ("_PROBE_SECONDS", 0.02),
        ("_PROBE_TIMEOUT_SECONDS", 0.05),
        ("_COMMIT_SECONDS", 1.0),
    ):
        monkeypatch.setattr(module, name, seconds)
    return consumer


def listen(scenario: Callable[[Health], Awaitable[None]], max_silence_seconds: float = 60.0) -> None:
    async def run() -> None:
        health, stop = Health(("kafka",), max_silence_seconds), asyncio.Event()
        sink: Any = FakeSink(health)
        task = asyncio.create_task(KafkaListener(SOURCE, Path(), cast(EventSink, sink)).run(stop))
        try:
            await scenario(health)
        finally:
            stop.set()
            await asyncio.wait_for(task, 10)

    asyncio.run(run())


@pytest.mark.parametrize("assigned", [frozenset({PARTITION}), frozenset()])
@pytest.mark.parametrize("how", ["refuse", "hang"])
def test_listener_is_unready_while_no_broker_answers(
    consumer: FakeConsumer, assigned: frozenset[TopicPartition], how: str
) -> None:
    consumer.assigned = assigned

    async def scenario(health: Health) -> None:
        await until(lambda: not health.describe_unready())
        consumer.hangs, consumer.error = how == "hang", KafkaConnectionError("gone")
        await until(lambda: bool(health.describe_unready()))
        for _ in range(30):
            assert health.describe_unready().startswith("kafka: the brokers are unreachable ("), (
                "it stays unready"
            )
            await asyncio.sleep(0.005)
        consumer.hangs, consumer.error = False, None
        await until(lambda: not health.describe_unready())

    listen(scenario)
    assert consumer.stopped == 1


def test_listener_stays_ready_while_reachable_brokers_send_nothing(consumer: FakeConsumer) -> None:
    async def scenario(health: Health) -> None:
        await until(lambda: not health.describe_unready())
        for _ in range(50):
            await asyncio.sleep(0.005)
            assert not health.describe_unready()

    listen(scenario)


def test_offset_commit_without_brokers_neither_hangs_nor_delays_a_stop(consumer: FakeConsumer) -> None:
    consumer.batches.append({PARTITION: [FakeRecord()]})
    consumer.hangs = True

    async def scenario(health: Health) -> None:
        await until(lambda: "unreachable" in health.describe_unready())
        began = time.monotonic()
        while time.monotonic() - began < 0.4:
            assert not health.hanging_components(), "a restart would not help"
            await asyncio.sleep(0.01)

    listen(scenario, max_silence_seconds=0.3)
    assert (consumer.commits, consumer.stopped >= 1) == (0, True)


def test_stop_without_brokers_is_clean(consumer: FakeConsumer) -> None:
    consumer.stops_badly = True

    async def scenario(health: Health) -> None:
        await until(lambda: not health.describe_unready())

    listen(scenario)
    assert consumer.closed, "aiokafka does not close its client if stop fails"
