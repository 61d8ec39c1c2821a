"""Logs a failure that persists once, and then at growing intervals: a full disk must not fill the logs as well."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from icemirror.telemetry.logs import Log

_FIRST_SECONDS = 60.0
_MAX_SECONDS = 3600.0


@dataclass
class RepeatedFailure:
    """Logs the first failure, each failure with a new reason, and otherwise one per interval."""

    log: Log
    event: str
    clock: Callable[[], float] = time.monotonic
    count: int = 0
    _reason: str = ""
    _interval_seconds: float = _FIRST_SECONDS
    _log_at: float = 0.0

    def record_failure(self, reason: str) -> None:
        """Record a failure."""
        now = self.clock()
        self.count += 1
        if self.count == 1 or reason != self._reason:
            self._interval_seconds = _FIRST_SECONDS
        elif now < self._log_at:
            return
        else:
            self._interval_seconds = min(2 * self._interval_seconds, _MAX_SECONDS)
        self._reason, self._log_at = reason, now + self._interval_seconds
        repeated = {"times": self.count} if self.count > 1 else {}
        self.log.warning(self.event, reason=reason, **repeated)

    def record_success(self) -> None:
        """Record a success; log it if it follows several failures."""
        if self.count > 1:
            self.log.info("recovered", after=self.event, times=self.count)
        self.count = 0
