"""A persistent failure is logged at growing intervals."""

from __future__ import annotations

import pytest

from icemirror.telemetry.logs import get_log
from trigger.service.repeated_failure import RepeatedFailure


class Heard:
    """A failure with a manual clock, and the log."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now = 0.0
        self.caplog = caplog
        self.failure = RepeatedFailure(get_log("trigger.service.watch"), "sweep failed", lambda: self.now)

    def fail(self, reason: str, seconds: float = 1.0) -> int:
        """Fail after some seconds; return the number of new log lines."""
        before = len(self.caplog.records)
        self.now += seconds
        self.failure.record_failure(reason)
        return len(self.caplog.records) - before


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Heard:
    caplog.set_level("INFO")
    return Heard(caplog)


def test_same_failure_is_logged_at_growing_intervals(heard: Heard) -> None:
    lines = [heard.fail("the disk is full") for _ in range(3 * 3600)]
    told = [at for at, count in enumerate(lines) if count]
    assert told == [0, 60, 180, 420, 900, 1860, 3780, 7380]


def test_new_reason_is_logged_at_once(heard: Heard) -> None:
    reasons = ["full", "full", "locked", "locked", "full"]
    assert [heard.fail(reason) for reason in reasons] == [1, 0, 1, 0, 1]


def test_recovery_is_logged_and_resets_the_interval(heard: Heard) -> None:
    heard.fail("full")
    heard.fail("full")
    heard.failure.record_success()
    assert heard.caplog.messages[-1] == "recovered"
    heard.failure.record_success()
    assert len(heard.caplog.messages) == 2
    assert heard.fail("full") == 1
