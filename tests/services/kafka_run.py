"""Many commits of many tables through a real broker, while `serve` is killed repeatedly.

python -m tests.services.kafka_run      # 10,000 events, 50 tables, five kills
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from icemirror.processes.process_identity import identify
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import SlotState
from icemirror.stores.sqlite import SqliteStore
from tests.services.hinted_lake import HintedLake
from tests.services.kafka_broker import kafka

ROOT = Path(__file__).parents[2]
TOPIC = "commits"
PATIENCE_SECONDS = 120.0
CRASH_SECONDS = 15.0
SECONDS_PER_KILL = 8.0
POISON_EVERY = 100
POINTS = ("notice", "noticed", "dispatched", "launch", "launched")
EVENTS_AT_ONCE = 25


@dataclass(frozen=True)
class Figures:
    """The figures of a run."""

    events: int
    tables: int
    kills: int
    launches: int
    behind: int
    overlaps: int
    letters: int
    uncommitted: int
    exit_code: int
    busy_slots: int
    seconds: float

    @property
    def percent(self) -> float:
        """Launches per hundred events."""
        return 100 * self.launches / self.events


class Serving:
    """A `serve` that can be killed, and started again."""

    def __init__(self, config: Path) -> None:
        self._config, self._log = config, (config.parent / "serve.log").open("ab")
        self._start()

    def _start(self, **environ: str) -> None:
        command = [sys.executable, str(ROOT / "tests" / "services" / "serve_process.py"), str(self._config)]
        process_environ = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=process_environ)

    async def kill(self, point: str) -> int:
        """Kill it now, and the next process at this crash point; return how often it died."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._start(ICEMIRROR_CRASH_AT=point)
        end = time.monotonic() + CRASH_SECONDS
        while self._process.poll() is None and time.monotonic() < end:
            await asyncio.sleep(0.05)
        crashed = self._process.poll() is not None
        self._process.kill()
        self._process.wait()
        self._start()
        return 1 + crashed

    def end(self) -> int:
        """Stop it cleanly; return its exit code."""
        self._process.terminate()
        try:
            return self._process.wait(30)
        finally:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self._log.close()


def message(name: str, number: int) -> tuple[bytes, list[tuple[str, bytes]]]:
    """An event of one of several catalogs, in structured or binary mode; sometimes one that cannot be parsed."""
    table = f"{name.split('.')[1]}_changelog"
    if number % POISON_EVERY == POISON_EVERY - 1:
        return b'{"poison":' + str(number).encode() + b"}", []
    match number % 4:
        case 0:
            event: Any = {
                "specversion": "1.0",
                "type": "updateTable",
                "tabular-id": "x",
                "namespace": "raw",
                "name": table,
            }
            return json.dumps(event).encode(), [("content-type", b"application/cloudevents+json")]
        case 1:
            headers = {
                "specversion": "1.0",
                "type": "updateTable",
                "tabular-id": "x",
                "namespace": "raw",
                "name": table,
            }
            return b"null", [(f"ce_{key}", text.encode()) for key, text in headers.items()]
        case 2:
            event = {"event_type": "AFTER_UPDATE_TABLE", "namespace": ["raw"], "table_name": table}
            return json.dumps(event).encode(), []
        case _:
            event = {
                "type": "CONTENT_STORED",
                "contentKey": {"elements": ["raw", table]},
                "content": {"type": "ICEBERG_TABLE"},
            }
            return json.dumps(event).encode(), []


async def produce(servers: str, lake: HintedLake, events: int, seconds: float, rng: random.Random) -> None:
    """Commit and send one event per commit, spread over this many seconds."""
    producer = AIOKafkaProducer(bootstrap_servers=servers)
    await producer.start()
    try:
        for number in range(events):
            name = rng.choice(lake.names)
            if number % POISON_EVERY != POISON_EVERY - 1:
                lake.commit(name)
            value, headers = message(name, number)
            await producer.send(TOPIC, value, headers=headers)
            if number % EVENTS_AT_ONCE == EVENTS_AT_ONCE - 1:
                await producer.flush()
                await asyncio.sleep(seconds * EVENTS_AT_ONCE / events)
    finally:
        await producer.stop()


async def _last_commits(servers: str, lake: HintedLake) -> None:
    await asyncio.sleep(1.0)
    producer = AIOKafkaProducer(bootstrap_servers=servers)
    await producer.start()
    for name in lake.names:
        lake.commit(name)
        value, headers = message(name, 0)
        await producer.send(TOPIC, value, headers=headers)
    await producer.stop()


async def uncommitted(servers: str) -> int:
    """Records of the topic that the group has not committed."""
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, group_id="icemirror", enable_auto_commit=False)
    await consumer.start()
    try:
        partitions = [TopicPartition(TOPIC, number) for number in consumer.partitions_for_topic(TOPIC) or ()]
        partitions = partitions or [TopicPartition(TOPIC, number) for number in range(4)]
        ends = await consumer.end_offsets(partitions)
        return sum([ends[partition] - (await consumer.committed(partition) or 0) for partition in partitions])
    finally:
        await consumer.stop()


async def drive(servers: str, folder: Path, *, events: int, tables: int, kills: int, seed: int) -> Figures:
    """Produce, kill, wait until everything is merged, stop `serve`, and return the figures."""
    lake, rng = HintedLake(folder, tables), random.Random(seed)
    serving, began = Serving(lake.create(servers)), time.monotonic()
    try:
        producing = asyncio.create_task(
            produce(servers, lake, events, kills * SECONDS_PER_KILL, random.Random(seed + 1))
        )
        died = 0
        while died < kills:
            await asyncio.sleep(rng.uniform(1.0, 4.0))
            died += await serving.kill(rng.choice(POINTS))
        await producing
        # The batch with the last commits of all tables was read before the crash: no later event reports them.
        last = asyncio.create_task(_last_commits(servers, lake))
        died += await serving.kill("notice")
        await last
        end = time.monotonic() + PATIENCE_SECONDS
        while lake.behind() and time.monotonic() < end:
            await asyncio.sleep(0.2)
        await asyncio.sleep(3.0)
    finally:
        code = serving.end()
    _wait_for_workers(lake)
    uncommitted_records = await uncommitted(servers)
    with SqliteStore(folder / "state.db") as store:
        rows, letters = store.load(ALL_ROWS), store.letters()
    return Figures(
        events=events,
        tables=tables,
        kills=died,
        launches=sum(line.startswith("began") for line in lake.noted("workers")),
        behind=len(lake.behind()),
        overlaps=len(lake.noted("overlaps")),
        letters=len(letters),
        uncommitted=uncommitted_records,
        exit_code=code,
        busy_slots=sum(slot.state is not SlotState.FREE for slot in rows.slots.values()),
        seconds=round(time.monotonic() - began, 1),
    )


def _wait_for_workers(lake: HintedLake) -> None:
    pids = [int(line.split()[1]) for line in lake.noted("workers") if line.startswith("began")]
    end = time.monotonic() + 30
    while any(identify(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.1)


@click.command()
@click.option("--events", default=10_000, show_default=True)
@click.option("--tables", default=50, show_default=True)
@click.option("--kills", default=5, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(events: int, tables: int, kills: int, seed: int) -> None:
    """Print the figures of a full run."""
    with TemporaryDirectory() as broker, TemporaryDirectory() as lake, kafka(Path(broker)) as server:
        figures = asyncio.run(
            drive(server.servers, Path(lake), events=events, tables=tables, kills=kills, seed=seed)
        )
    print(figures, f"{figures.percent:.2f} % launches")
    wrong = [name for name in ("behind", "overlaps", "uncommitted", "exit_code") if getattr(figures, name)]
    sys.exit(f"wrong figures: {wrong}" if wrong or figures.percent > 3 else 0)


if __name__ == "__main__":
    main()
