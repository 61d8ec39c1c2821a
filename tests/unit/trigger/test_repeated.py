"""What goes on failing is told now and then."""

from __future__ import annotations

import pytest

from icemirror.telemetry.logs import get_log
from trigger.repeated import Repeated


class Heard:
    """A failure, by a clock that stands still until it is moved; and what was logged."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now = 0.0
        self.caplog = caplog
        self.failure = Repeated(get_log("trigger.watch"), "sweep failed", lambda: self.now)

    def fail(self, reason: str, seconds: float = 1.0) -> int:
        """Fails after some seconds; how many lines that made."""
        before = len(self.caplog.records)
        self.now += seconds
        self.failure.failed(reason)
        return len(self.caplog.records) - before


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Heard:
    caplog.set_level("INFO")
    return Heard(caplog)


def test_the_same_failure_is_told_at_growing_intervals(heard: Heard) -> None:
    lines = [heard.fail("the disk is full") for _ in range(3 * 3600)]
    told = [at for at, count in enumerate(lines) if count]
    assert told == [0, 60, 180, 420, 900, 1860, 3780, 7380]


def test_another_reason_is_told_at_once(heard: Heard) -> None:
    reasons = ["full", "full", "locked", "locked", "full"]
    assert [heard.fail(reason) for reason in reasons] == [1, 0, 1, 0, 1]


def test_that_it_works_again_is_told_and_it_begins_anew(heard: Heard) -> None:
    heard.fail("full")
    heard.fail("full")
    heard.failure.ended()
    assert heard.caplog.messages[-1] == "sweep failed, and works again"
    heard.failure.ended()
    assert len(heard.caplog.messages) == 2
    assert heard.fail("full") == 1
