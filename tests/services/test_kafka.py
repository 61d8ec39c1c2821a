"""`serve` and a real Kafka broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.services.kafka_broker import Kafka
from tests.services.kafka_run import POISON_EVERY, drive


def test_no_commit_is_lost_though_the_consumer_dies_again_and_again(broker: Kafka, tmp_path: Path) -> None:
    found = asyncio.run(drive(broker.servers, tmp_path, events=500, tables=10, kills=3, seed=7))
    log = (tmp_path / "serve.log").read_text()[-3000:]
    assert found.behind == 0, f"{found}\n{log}"
    assert found.kills >= 3
    assert found.overlaps == 0, "two jobs had one table at the same time"
    assert found.percent <= 3, found
    assert found.letters == 500 // POISON_EVERY
    assert (found.exit_code, found.uncommitted, found.busy_slots) == (0, 0, 0), f"{found}\n{log}"
