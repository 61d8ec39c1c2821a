"""`serve` and a real Kafka broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaProducer

from icemirror.errors import BadConfig, Transient
from icemirror.settings.trigger import KafkaSource
from tests.provision.cache import Unavailable
from tests.services.certificates import make_certificates
from tests.services.kafka_broker import Kafka, kafka
from tests.services.kafka_run import POISON_EVERY, drive
from tests.services.processes import free_port
from tests.support.need import do_without
from trigger.dispatch.ingest import Accepted, IngestOutcome, NotStored
from trigger.listeners.kafka import KafkaListener
from trigger.listeners.kafka_login import connection_arguments
from trigger.listeners.listener import EventSink
from trigger.service.health import Health

EVENTS = 1000  # a crash costs a launch or two, regardless of the number of events


def test_no_commit_is_lost_when_the_consumer_dies_repeatedly(broker: Kafka, tmp_path: Path) -> None:
    figures = asyncio.run(drive(broker.servers, tmp_path, events=EVENTS, tables=10, kills=3, seed=7))
    log = (tmp_path / "serve.log").read_text()[-3000:]
    assert figures.behind == 0, f"{figures}\n{log}"
    assert figures.kills >= 3
    assert figures.overlaps == 0, "two jobs had one table at the same time"
    assert figures.percent <= 3, figures
    assert figures.letters == EVENTS // POISON_EVERY
    assert (figures.exit_code, figures.uncommitted, figures.busy_slots) == (0, 0, 0), f"{figures}\n{log}"


LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "username": "us", "password": "right"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kafka, Path]]:
    """A broker with TLS and passwords, and the folder with the authority's certificate."""
    folder = tmp_path_factory.mktemp("guarded")
    make_certificates(folder)
    users = 'username="us" password="right" user_us="right"'
    more = {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{LOGIN_MODULE} required {users};",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
    }
    try:
        with kafka(folder, "SASL_SSL", more) as broker:
            yield broker, folder
    except Unavailable as error:
        do_without(f"no kafka: {error}")


class Received:
    """A sink that keeps its events, and can report that they were not stored."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.works: list[bool] = []
        self.refuse = 0

    async def accept(self, source: str, bodies: Sequence[bytes]) -> list[IngestOutcome]:
        if self.refuse:
            self.refuse -= 1
            return [NotStored(Transient("locked")) for _ in bodies]
        self.bodies += bodies
        return [Accepted() for _ in bodies]

    def record_heartbeat(self, component: str, works: bool, problem: str = "") -> None:
        self.works.append(works)


async def send(given: dict[str, Any], topic: str, values: Sequence[bytes]) -> None:
    producer = AIOKafkaProducer(**given)
    await producer.start()
    for value in values:
        await producer.send_and_wait(topic, value)
    await producer.stop()


async def receive(
    source: KafkaSource, folder: Path, received: Received, count: int, seconds: float = 40
) -> None:
    """Listen until this many events were received, then stop."""
    stop = asyncio.Event()
    listening = asyncio.create_task(KafkaListener(source, folder, cast(EventSink, received)).run(stop))
    end = asyncio.get_running_loop().time() + seconds
    while len(received.bodies) < count and not listening.done() and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.05)
    stop.set()
    await listening


def test_listener_uses_tls_and_a_password(guarded: tuple[Kafka, Path]) -> None:
    broker, folder = guarded
    source = KafkaSource.model_validate(
        {"bootstrap_servers": broker.servers, "topics": ["guarded"], "ca_file": "ca.pem", **LOGIN}
    )
    received = Received()

    async def live() -> None:
        await send(connection_arguments(source, folder), "guarded", [b"one", b"two"])
        await receive(source, folder, received, 2)

    asyncio.run(live())
    assert sorted(received.bodies) == [b"one", b"two"]


@pytest.mark.parametrize("changes", [{"password": "wrong"}, {"ca_file": None}])
def test_untrusted_broker_or_wrong_password_is_refused(
    guarded: tuple[Kafka, Path], changes: dict[str, Any]
) -> None:
    broker, folder = guarded
    given = {
        "bootstrap_servers": broker.servers,
        "topics": ["guarded"],
        "ca_file": "ca.pem",
        **LOGIN,
        **changes,
    }
    received = Received()
    with suppress(BadConfig):
        asyncio.run(receive(KafkaSource.model_validate(given), folder, received, 1, seconds=6))
    assert received.bodies == []
    assert True not in received.works


def test_records_that_could_not_be_stored_are_retried_before_the_offset_commit(broker: Kafka) -> None:
    source = KafkaSource.model_validate(
        {"bootstrap_servers": broker.servers, "topics": ["again"], "group_id": "again"}
    )
    received, later = Received(), Received()
    received.refuse = 2

    async def live() -> None:
        await send({"bootstrap_servers": broker.servers}, "again", [b"one", b"two"])
        await receive(source, Path(), received, 2)
        await receive(source, Path(), later, 1, seconds=5)

    asyncio.run(live())
    assert sorted(received.bodies) == [b"one", b"two"]
    assert later.bodies == [], "the offsets were not committed"


async def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < end, "timed out"
        await asyncio.sleep(0.05)


def test_listener_is_unready_while_its_broker_is_down_and_resumes_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trigger.listeners.kafka._PROBE_SECONDS", 1.0)
    monkeypatch.setattr("trigger.listeners.kafka._PROBE_TIMEOUT_SECONDS", 3.0)
    ports, received, health = (free_port(), free_port()), Received(), Health(("kafka",), 120.0)
    received.record_heartbeat = health.record_heartbeat  # type: ignore[method-assign]
    source = KafkaSource.model_validate({"bootstrap_servers": f"127.0.0.1:{ports[0]}", "topics": ["lonely"]})

    async def live() -> None:
        stop, stack = asyncio.Event(), ExitStack()
        await asyncio.to_thread(stack.enter_context, kafka(tmp_path, ports=ports))
        given = {"bootstrap_servers": f"127.0.0.1:{ports[0]}"}
        await send(given, "lonely", [b"before"])
        listening = asyncio.create_task(KafkaListener(source, Path(), cast(EventSink, received)).run(stop))
        try:
            await wait_until(lambda: received.bodies == [b"before"] and not health.describe_unready())
            await asyncio.to_thread(stack.close)
            await wait_until(lambda: bool(health.describe_unready()))
            assert health.describe_unready().startswith("kafka: ")
            await asyncio.to_thread(stack.enter_context, kafka(tmp_path, ports=ports))
            await wait_until(lambda: not health.describe_unready())
            await send(given, "lonely", [b"after"])
            await wait_until(lambda: received.bodies[-1] == b"after")
            await asyncio.to_thread(stack.close)
        finally:
            stop.set()
            await asyncio.wait_for(listening, 60)
            stack.close()

    try:
        asyncio.run(live())
    except Unavailable as error:
        do_without(f"no kafka: {error}")


def test_second_group_member_shares_the_partitions_and_nothing_is_lost(broker: Kafka) -> None:
    source = KafkaSource.model_validate(
        {"bootstrap_servers": broker.servers, "topics": ["shared"], "group_id": "shared"}
    )
    first, second = Received(), Received()

    async def live() -> None:
        stop = asyncio.Event()
        first_task = asyncio.create_task(KafkaListener(source, Path(), cast(EventSink, first)).run(stop))
        await send({"bootstrap_servers": broker.servers}, "shared", [b"%d" % number for number in range(50)])
        second_task = asyncio.create_task(receive(source, Path(), second, 10))
        sent = 50
        while not second_task.done():  # admission to the group takes longer on a busy machine
            more = [b"%d" % number for number in range(sent, sent + 10)]
            await send({"bootstrap_servers": broker.servers}, "shared", more)
            sent += len(more)
        await second_task
        for _ in range(400):
            if len({*first.bodies, *second.bodies}) >= sent:
                break
            await asyncio.sleep(0.05)
        stop.set()
        await first_task
        assert {*first.bodies, *second.bodies} == {b"%d" % number for number in range(sent)}

    asyncio.run(live())
    assert first.bodies
    assert second.bodies
