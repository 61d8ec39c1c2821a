"""Kafka that is quiet, and Kafka that is dead: aiokafka tells them not apart, `/readyz` does."""

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
from trigger.intake import Taken
from trigger.listeners import kafka as module
from trigger.listeners.kafka import KafkaListener
from trigger.listeners.listener import Desk
from trigger.pulse import Pulse

SOURCE = KafkaSource.model_validate({"bootstrap_servers": "nobody:9092", "topics": ["t"]})
PARTITION = TopicPartition("t", 0)


class FakeRecord:
    value, headers, offset = b"{}", (), 7


class FakeConsumer:
    """aiokafka's consumer: without brokers it hands out nothing, and says nothing."""

    def __init__(self) -> None:
        self.assigned = frozenset({PARTITION})
        self.trouble: Exception | None = None
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
        if self.stops_badly:  # as aiokafka does without brokers
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
        await self._ask()
        return {PARTITION: 7}

    async def topics(self) -> set[str]:
        assert not self.assigned
        await self._ask()
        return {"t"}

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        await self._ask()
        self.commits += 1

    async def _ask(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        if self.trouble is not None:
            raise self.trouble


class FakeDesk:
    """Takes whatever comes."""

    def __init__(self, pulse: Pulse) -> None:
        self.beat = pulse.beat

    async def take(self, source: str, bodies: list[bytes]) -> list[Taken]:
        return [Taken() for _ in bodies]


async def until(true: Callable[[], bool]) -> None:
    for _ in range(1000):
        if true():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> FakeConsumer:
    consumer = FakeConsumer()
    monkeypatch.setattr(module, "AIOKafkaConsumer", lambda **_: consumer)
    monkeypatch.setattr(module, "connection", lambda *_: {})
    for name, seconds in (("_ASK_SECONDS", 0.02), ("_ANSWER_SECONDS", 0.05), ("_COMMIT_SECONDS", 1.0)):
        monkeypatch.setattr(module, name, seconds)
    return consumer


def listen(told: Callable[[Pulse], Awaitable[None]], most_seconds: float = 60.0) -> None:
    async def live() -> None:
        pulse, stop = Pulse(("kafka",), most_seconds), asyncio.Event()
        desk: Any = FakeDesk(pulse)
        task = asyncio.create_task(KafkaListener(SOURCE, Path(), cast(Desk, desk)).run(stop))
        try:
            await told(pulse)
        finally:
            stop.set()
            await asyncio.wait_for(task, 10)

    asyncio.run(live())


@pytest.mark.parametrize("assigned", [frozenset({PARTITION}), frozenset()])
@pytest.mark.parametrize("how", ["refuse", "hang"])
def test_it_is_not_ready_while_no_broker_answers_and_ready_again_after(
    consumer: FakeConsumer, assigned: frozenset[TopicPartition], how: str
) -> None:
    consumer.assigned = assigned

    async def told(pulse: Pulse) -> None:
        await until(lambda: not pulse.unready())
        consumer.hangs, consumer.trouble = how == "hang", KafkaConnectionError("gone")
        await until(lambda: bool(pulse.unready()))
        for _ in range(30):
            assert pulse.unready().startswith("kafka: the brokers do not answer ("), "and stays so"
            await asyncio.sleep(0.005)
        consumer.hangs, consumer.trouble = False, None
        await until(lambda: not pulse.unready())

    listen(told)
    assert consumer.stopped == 1


def test_who_is_quiet_but_there_stays_ready(consumer: FakeConsumer) -> None:
    async def told(pulse: Pulse) -> None:
        await until(lambda: not pulse.unready())
        for _ in range(50):
            await asyncio.sleep(0.005)
            assert not pulse.unready()

    listen(told)


def test_a_commit_that_no_broker_takes_is_no_hanging_and_holds_up_no_stop(consumer: FakeConsumer) -> None:
    consumer.batches.append({PARTITION: [FakeRecord()]})
    consumer.hangs = True

    async def told(pulse: Pulse) -> None:
        await until(lambda: "do not answer" in pulse.unready())
        began = time.monotonic()
        while time.monotonic() - began < 0.4:
            assert not pulse.hanging(), "a new one would not help"
            await asyncio.sleep(0.01)

    listen(told, most_seconds=0.3)
    assert (consumer.commits, consumer.stopped >= 1) == (0, True)


def test_a_stop_while_no_broker_is_there_is_an_orderly_one(consumer: FakeConsumer) -> None:
    consumer.stops_badly = True

    async def told(pulse: Pulse) -> None:
        await until(lambda: not pulse.unready())

    listen(told)
    assert consumer.closed, "aiokafka stopped midway, and left its client open"
