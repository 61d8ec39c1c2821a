"""A hundred forged events on every way in: the intake, the Lambda function, a record of Kafka, a post."""

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

from icemirror.settings import load_settings
from icemirror.state.configured import policy_of
from icemirror.state.reads import EVERYTHING
from icemirror.state.sqlite import SqliteStore
from icemirror.telemetry.metrics import NoMetrics
from icemirror.telemetry.server import Post
from tests.sim.events.bugs import BUGS
from tests.sim.events.forged import CHANGELOG, CONFIG, HEAD, Forged, forge
from tests.unit.trigger.fakes import FakeHeads, FakeLauncher
from trigger import registry
from trigger.fleet import Fleet
from trigger.handler import Function
from trigger.intake import Intake, Taken
from trigger.listeners.notify import Notify
from trigger.registry import Registry
from trigger.sources.normalise import whole_event
from trigger.sources.refused import Refused

EVENTS = 100
WARM_SEEDS = 20
MOST_GROWTH_BYTES = 32 << 20


class Victim:
    """A trigger with one table, for whoever tries to make it do something."""

    def __init__(self, folder: Path) -> None:
        config = folder / "icemirror.yaml"
        config.write_text(CONFIG)
        settings = load_settings(config, {})
        self.store, self.launcher = SqliteStore(folder / "state.db"), FakeLauncher()
        heads = FakeHeads({".".join(CHANGELOG): HEAD})
        with patch.object(registry, "open_source", lambda *_: heads):
            known = Registry(settings)
            known.heads(10.0)
        self.intake = Intake(
            Fleet(known, self.store, policy_of(settings), self.launcher, str(config), NoMetrics())
        )
        self.function = Function(self.intake)
        self.notify = Notify(self.intake, "a right token", True, lambda: None)
        self.seeds, self.resident = 0, 0

    def attack(self, forged: Forged, chance: random.Random) -> str:
        """Sends it one way in; what became of it."""
        match chance.randrange(4):
            case 0:
                return self._by_lambda(forged)
            case 1:
                return self._by_kafka(forged)
            case 2:
                body = chance.choice([forged.body, b'{"table":"zx9.q7_changelog"}'])
                shown = chance.choice(
                    ["", "Bearer wrong", "Bearer a right toke", "Basic a right token", "\xff"]
                )
                return f"post: {self.notify(Post(shown, len(body), lambda: body)).status}"
            case _:
                return self._ended(*self.intake.take([forged.body]))

    def _by_kafka(self, forged: Forged) -> str:
        try:
            return self._ended(*self.intake.take([whole_event(forged.headers, forged.body)]))
        except Refused as refused:
            return refused.reason

    def _by_lambda(self, forged: Forged) -> str:
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
        failed = self.function.answer({"Records": records}, 1.0)["batchItemFailures"]
        assert {"itemIdentifier": "3"} not in failed, "it would come for ever"
        return "lambda: failed" if failed else "lambda: of no interest"

    def _ended(self, outcome: object) -> str:
        assert isinstance(outcome, Taken | Refused), outcome
        return outcome.reason if isinstance(outcome, Refused) else "of no interest"

    def check(self) -> None:
        """Nothing was noticed, nothing launched, and nothing piles up."""
        rows = self.store.load(EVERYTHING)
        assert not rows.tables, f"noticed: {sorted(rows.tables)}"
        assert not rows.slots
        assert not self.launcher.launches
        assert len(self.store.letters()) <= 200
        self.seeds += 1
        if self.seeds == WARM_SEEDS:
            self.resident = _resident_bytes()
        if self.seeds > WARM_SEEDS and self.seeds % 10 == 0:
            grown = _resident_bytes() - self.resident
            assert grown < MOST_GROWTH_BYTES, f"{grown >> 20} MiB more after {self.seeds * EVENTS} events"


@cache
def victim() -> Victim:
    """One for the whole process: what piles up is seen."""
    return Victim(Path(tempfile.mkdtemp(prefix="events-")))


def run(seed: int, bug: str | None = None) -> Counter[str]:
    """What became of the events of a seed."""
    chance, counts = random.Random(seed), Counter[str]()
    with ExitStack() as stack:
        target = victim() if bug is None else Victim(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        if bug is not None:
            stack.enter_context(BUGS[bug]())
        for at in range(EVENTS):
            forged = forge(chance)
            try:
                counts[target.attack(forged, chance)] += 1
            except Exception as error:
                raise AssertionError(
                    f"event {at} of seed {seed} ({forged.kind}): {forged.body[:300]!r}"
                ) from error
        target.check()
    counts["events"] = EVENTS
    return counts


def some_seeds(first: int, seconds: float) -> tuple[int, Counter[str]]:
    """How many seeds were run in so many seconds, and what became of their events."""
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
