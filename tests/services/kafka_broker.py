"""A Kafka broker: one node, KRaft, its data in a folder."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.provision import maven
from tests.services.processes import HOST, DidNotStart, free_port, java, listens, running

VERSION = "4.1.0"
_CLUSTER = "icemirrorAAAAAAAAAAAAA"


@dataclass(frozen=True)
class Kafka:
    """A running broker."""

    port: int

    @property
    def servers(self) -> str:
        return f"{HOST}:{self.port}"


def kafka_jars() -> Path:
    """Return a folder with the broker's jars."""
    return maven.jars(f"kafka-{VERSION}", [f"org.apache.kafka:kafka_2.13:{VERSION}"])


@contextmanager
def kafka(
    folder: Path,
    protocol: str = "PLAINTEXT",
    more: Mapping[str, str] | None = None,
    ports: tuple[int, int] | None = None,
) -> Iterator[Kafka]:
    """Run a broker whose clients use `protocol`; `more` are additional broker properties.

    With the folder and the `ports` (broker, controller) of a stopped broker, that broker is restarted.
    """
    jars = kafka_jars()
    port, controller = ports or (free_port(), free_port())
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listeners": f"{protocol}://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"{protocol}://{HOST}:{port}",
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{protocol}:{protocol}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": protocol,
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "num.partitions": "4",
        **(more or {}),
    }
    settings = folder / "server.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    program = [*java(17), "-Xmx384m", "-cp", f"{jars}/*"]
    formatted = subprocess.run(
        [*program, "kafka.tools.StorageTool", "format", "-g", "-t", _CLUSTER, "-c", str(settings)],
        capture_output=True,
        text=True,
        check=False,
    )
    if formatted.returncode != 0:
        raise DidNotStart(f"kafka could not be formatted:\n{(formatted.stdout + formatted.stderr)[-1500:]}")
    with running(
        [*program, "kafka.Kafka", str(settings)], folder / "kafka.log", lambda: listens(port), cwd=folder
    ):
        yield Kafka(port)
