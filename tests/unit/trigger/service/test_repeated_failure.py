"""A persistent failure is logged at growing intervals."""

from __future__ import annotations

import pytest

from icemirror.telemetry.logs import get_log
from trigger.service.repeated_failure import RepeatedFailure


class LoggedFailure:
    """A repeated failure with a manual clock, and its log."""

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
def logged(caplog: pytest.LogCaptureFixture) -> LoggedFailure:
    caplog.set_level("INFO")
    return LoggedFailure(caplog)


def test_same_failure_is_logged_at_growing_intervals(logged: LoggedFailure) -> None:
    lines = [logged.fail("the disk is full") for _ in range(3 * 3600)]
    logged_at = [second for second, count in enumerate(lines) if count]
    assert logged_at == [0, 60, 180, 420, 900, 1860, 3780, 7380]


def test_new_reason_is_logged_at_once(logged: LoggedFailure) -> None:
    reasons = ["full", "full", "locked", "locked", "full"]
    assert [logged.fail(reason) for reason in reasons] == [1, 0, 1, 0, 1]


def test_recovery_is_logged_and_resets_the_interval(logged: LoggedFailure) -> None:
    logged.fail("full")
    logged.fail("full")
    logged.failure.record_success()
    assert logged.caplog.messages[-1] == "recovered"
    logged.failure.record_success()
    assert len(logged.caplog.messages) == 2
    assert logged.fail("full") == 1
