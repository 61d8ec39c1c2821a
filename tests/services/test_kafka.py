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
from tests import maven
from tests.need import do_without
from tests.services import processes
from tests.services.certificates import make_certificates
from tests.services.kafka_broker import Kafka, kafka
from tests.services.kafka_run import POISON_EVERY, drive
from tests.services.processes import free_port
from trigger.intake import Taken
from trigger.listeners.kafka import KafkaListener
from trigger.listeners.kafka_login import connection
from trigger.listeners.listener import Desk
from trigger.pulse import Pulse

EVENTS = 1000  # a death costs a launch or two, however many events there are


def test_no_commit_is_lost_though_the_consumer_dies_again_and_again(broker: Kafka, tmp_path: Path) -> None:
    found = asyncio.run(drive(broker.servers, tmp_path, events=EVENTS, tables=10, kills=3, seed=7))
    log = (tmp_path / "serve.log").read_text()[-3000:]
    assert found.behind == 0, f"{found}\n{log}"
    assert found.kills >= 3
    assert found.overlaps == 0, "two jobs had one table at the same time"
    assert found.percent <= 3, found
    assert found.letters == EVENTS // POISON_EVERY
    assert (found.exit_code, found.uncommitted, found.busy_slots) == (0, 0, 0), f"{found}\n{log}"


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
    except (maven.Unavailable, processes.Unavailable) as error:
        do_without(f"no kafka: {error}")


class Heard:
    """A desk that keeps what it is given, and can say that it could not be stored."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.works: list[bool] = []
        self.refuse = 0

    async def take(self, source: str, bodies: Sequence[bytes]) -> list[Taken | Transient]:
        if self.refuse:
            self.refuse -= 1
            return [Transient("locked") for _ in bodies]
        self.bodies += bodies
        return [Taken() for _ in bodies]

    def beat(self, part: str, works: bool, why: str = "") -> None:
        self.works.append(works)


async def send(given: dict[str, Any], topic: str, values: Sequence[bytes]) -> None:
    producer = AIOKafkaProducer(**given)
    await producer.start()
    for value in values:
        await producer.send_and_wait(topic, value)
    await producer.stop()


async def hear(source: KafkaSource, folder: Path, heard: Heard, count: int, seconds: float = 40) -> None:
    """Listens until so many events were heard, then stops in order."""
    stop = asyncio.Event()
    listening = asyncio.create_task(KafkaListener(source, folder, cast(Desk, heard)).run(stop))
    end = asyncio.get_running_loop().time() + seconds
    while len(heard.bodies) < count and not listening.done() and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.05)
    stop.set()
    await listening


def test_it_listens_through_tls_with_a_password(guarded: tuple[Kafka, Path]) -> None:
    broker, folder = guarded
    source = KafkaSource.model_validate(
        {"bootstrap_servers": broker.servers, "topics": ["guarded"], "ca_file": "ca.pem", **LOGIN}
    )
    heard = Heard()

    async def live() -> None:
        await send(connection(source, folder), "guarded", [b"one", b"two"])
        await hear(source, folder, heard, 2)

    asyncio.run(live())
    assert sorted(heard.bodies) == [b"one", b"two"]


@pytest.mark.parametrize("changes", [{"password": "wrong"}, {"ca_file": None}])
def test_it_never_listens_to_whom_it_does_not_trust_nor_who_does_not_trust_it(
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
    heard = Heard()
    with suppress(BadConfig):
        asyncio.run(hear(KafkaSource.model_validate(given), folder, heard, 1, seconds=6))
    assert heard.bodies == []
    assert True not in heard.works


def test_what_could_not_be_stored_is_tried_again_before_anything_is_committed(broker: Kafka) -> None:
    source = KafkaSource.model_validate(
        {"bootstrap_servers": broker.servers, "topics": ["again"], "group_id": "again"}
    )
    heard, later = Heard(), Heard()
    heard.refuse = 2

    async def live() -> None:
        await send({"bootstrap_servers": broker.servers}, "again", [b"one", b"two"])
        await hear(source, Path(), heard, 2)
        await hear(source, Path(), later, 1, seconds=5)

    asyncio.run(live())
    assert sorted(heard.bodies) == [b"one", b"two"]
    assert later.bodies == [], "it was committed, and the group left at once"


async def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while not true():
        assert asyncio.get_running_loop().time() < end, "it did not happen"
        await asyncio.sleep(0.05)


def test_it_is_not_ready_while_its_broker_is_gone_and_hears_again_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trigger.listeners.kafka._ASK_SECONDS", 1.0)
    monkeypatch.setattr("trigger.listeners.kafka._ANSWER_SECONDS", 3.0)
    ports, heard, pulse = (free_port(), free_port()), Heard(), Pulse(("kafka",), 120.0)
    heard.beat = pulse.beat  # type: ignore[method-assign]
    source = KafkaSource.model_validate({"bootstrap_servers": f"127.0.0.1:{ports[0]}", "topics": ["lonely"]})

    async def live() -> None:
        stop, stack = asyncio.Event(), ExitStack()
        await asyncio.to_thread(stack.enter_context, kafka(tmp_path, ports=ports))
        given = {"bootstrap_servers": f"127.0.0.1:{ports[0]}"}
        await send(given, "lonely", [b"before"])
        listening = asyncio.create_task(KafkaListener(source, Path(), cast(Desk, heard)).run(stop))
        try:
            await until(lambda: heard.bodies == [b"before"] and not pulse.unready())
            await asyncio.to_thread(stack.close)
            await until(lambda: bool(pulse.unready()))
            assert pulse.unready().startswith("kafka: ")
            await asyncio.to_thread(stack.enter_context, kafka(tmp_path, ports=ports))
            await until(lambda: not pulse.unready())
            await send(given, "lonely", [b"after"])
            await until(lambda: heard.bodies[-1] == b"after")
            await asyncio.to_thread(stack.close)
        finally:
            stop.set()
            await asyncio.wait_for(listening, 60)
            stack.close()

    try:
        asyncio.run(live())
    except (maven.Unavailable, processes.Unavailable) as error:
        do_without(f"no kafka: {error}")


def test_a_second_member_takes_its_part_and_nothing_is_lost(broker: Kafka) -> None:
    source = KafkaSource.model_validate(
        {"bootstrap_servers": broker.servers, "topics": ["shared"], "group_id": "shared"}
    )
    first, second = Heard(), Heard()

    async def live() -> None:
        stop = asyncio.Event()
        one = asyncio.create_task(KafkaListener(source, Path(), cast(Desk, first)).run(stop))
        await send({"bootstrap_servers": broker.servers}, "shared", [b"%d" % at for at in range(50)])
        two = asyncio.create_task(hear(source, Path(), second, 10))
        sent = 50
        while not two.done():  # a group takes as long to admit a member as the machine is busy
            more = [b"%d" % at for at in range(sent, sent + 10)]
            await send({"bootstrap_servers": broker.servers}, "shared", more)
            sent += len(more)
        await two
        for _ in range(400):
            if len({*first.bodies, *second.bodies}) >= sent:
                break
            await asyncio.sleep(0.05)
        stop.set()
        await one
        assert {*first.bodies, *second.bodies} == {b"%d" % one for one in range(sent)}

    asyncio.run(live())
    assert first.bodies
    assert second.bodies
