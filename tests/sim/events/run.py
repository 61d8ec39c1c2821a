"""Sends a hundred forged events through every endpoint: ingest, Lambda, a Kafka record, a POST."""

from __future__ import annotations

import logging
import os
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from unittest.mock import patch

from icemirror.config_file.load import load_settings
from icemirror.http.routes import HttpPost
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.stores.from_settings import build_policy
from icemirror.stores.sqlite import SqliteStore
from icemirror.telemetry.metrics import NoMetrics
from tests.sim.events.forged import CHANGELOG, CONFIG, HEAD, Forged, forge
from tests.sim.events.planted_defects import PLANTED
from tests.unit.trigger.fakes import FakeHeads, FakeLauncher
from trigger.dispatch.dispatcher import Dispatcher
from trigger.dispatch.ingest import Accepted, EventIngest
from trigger.handler import LambdaFunction
from trigger.listeners.notify import NotifyHandler
from trigger.sources.kafka_records import decode_cloud_event
from trigger.sources.refusal import EventRefused, Refusal
from trigger.tables import registry
from trigger.tables.registry import TableRegistry

EVENTS = 100
WARM_SEEDS = 20
MAX_GROWTH_BYTES = 32 << 20


class Target:
    """A trigger with one table, on which no forged event may have an effect."""

    def __init__(self, folder: Path) -> None:
        config = folder / "icemirror.yaml"
        config.write_text(CONFIG)
        settings = load_settings(config, {})
        self.store, self.launcher = SqliteStore(folder / "state.db"), FakeLauncher()
        heads = FakeHeads({".".join(CHANGELOG): HEAD})
        with patch.object(registry, "open_head_source", lambda *_: heads):
            tables = TableRegistry(settings)
            tables.poll_heads(10.0)
        self.ingest = EventIngest(
            Dispatcher(tables, self.store, build_policy(settings), self.launcher, str(config), NoMetrics())
        )
        self.function = LambdaFunction(self.ingest)
        self.notify = NotifyHandler(self.ingest, "a right token", True, lambda: None)
        self.seeds, self.resident = 0, 0

    def send(self, forged: Forged, chance: random.Random) -> str:
        """Send the event through a random endpoint; return its outcome."""
        match chance.randrange(4):
            case 0:
                return self._send_to_lambda(forged)
            case 1:
                return self._send_as_kafka_record(forged)
            case 2:
                body = chance.choice([forged.body, b'{"table":"zx9.q7_changelog"}'])
                token = chance.choice(
                    ["", "Bearer wrong", "Bearer a right toke", "Basic a right token", "\xff"]
                )
                return f"post: {self.notify(HttpPost(token, len(body), lambda: body)).status}"
            case _:
                return self._outcome_text(*self.ingest.accept([forged.body]))

    def _send_as_kafka_record(self, forged: Forged) -> str:
        try:
            return self._outcome_text(*self.ingest.accept([decode_cloud_event(forged.headers, forged.body)]))
        except EventRefused as error:
            return error.refusal.reason

    def _send_to_lambda(self, forged: Forged) -> str:
        text = forged.body.decode("utf-8", "replace")
        records = [
            {
                "messageId": str(at),
                "body": text,
                "eventSource": "aws:sqs",
                "attributes": {"ApproximateReceiveCount": at},
            }
            for at in ("1", "3")
        ]
        failed = self.function.handle({"Records": records}, 1.0)["batchItemFailures"]
        assert {"itemIdentifier": "3"} not in failed, "it would be delivered forever"
        return "lambda: failed" if failed else "lambda: irrelevant"

    def _outcome_text(self, outcome: object) -> str:
        assert isinstance(outcome, Accepted | Refusal), outcome
        return outcome.reason if isinstance(outcome, Refusal) else "irrelevant"

    def check(self) -> None:
        """Check that no notice is stored, no job is launched, and memory does not grow."""
        rows = self.store.load(ALL_ROWS)
        assert not rows.tables, f"noticed: {sorted(rows.tables)}"
        assert not rows.slots
        assert not self.launcher.launches
        assert len(self.store.letters()) <= 200
        self.seeds += 1
        if self.seeds == WARM_SEEDS:
            self.resident = _resident_bytes()
        if self.seeds > WARM_SEEDS and self.seeds % 10 == 0:
            grown = _resident_bytes() - self.resident
            assert grown < MAX_GROWTH_BYTES, f"{grown >> 20} MiB more after {self.seeds * EVENTS} events"


@cache
def shared_target() -> Target:
    """Return one target per process, so that a memory leak shows."""
    return Target(Path(tempfile.mkdtemp(prefix="events-")))


def run(seed: int, defect: str | None = None) -> Counter[str]:
    """Send the events of a seed; return their outcomes."""
    chance, counts = random.Random(seed), Counter[str]()
    with ExitStack() as stack:
        target = (
            shared_target()
            if defect is None
            else Target(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        )
        if defect is not None:
            stack.enter_context(PLANTED[defect]())
        for at in range(EVENTS):
            forged = forge(chance)
            try:
                counts[target.send(forged, chance)] += 1
            except Exception as error:
                raise AssertionError(
                    f"event {at} of seed {seed} ({forged.kind}): {forged.body[:300]!r}"
                ) from error
        target.check()
    counts["events"] = EVENTS
    return counts


def run_seeds(first: int, seconds: float) -> tuple[int, Counter[str]]:
    """Run seeds for this time; return their number and the outcomes of their events."""
    logging.disable()
    counts, end, seed = Counter[str](), time.monotonic() + seconds, first
    while time.monotonic() < end or seed < first + 25:
        counts += run(seed)
        seed += 1
    return seed - first, counts


def _resident_bytes() -> int:
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
