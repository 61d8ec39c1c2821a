"""A failure that goes on is told once, and then now and then: a full disk must not fill logs as well."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from icemirror.telemetry.logs import Log

_FIRST_SECONDS = 60.0
_LONGEST_SECONDS = 3600.0


@dataclass
class Repeated:
    """Tells of failures of one kind, `event`: the first, each with another reason, and else at growing intervals."""

    log: Log
    event: str
    clock: Callable[[], float] = time.monotonic
    times: int = 0
    _reason: str = ""
    _pause: float = _FIRST_SECONDS
    _tell_at: float = 0.0

    def failed(self, reason: str) -> None:
        """It failed, maybe again."""
        now = self.clock()
        self.times += 1
        if self.times == 1 or reason != self._reason:
            self._pause = _FIRST_SECONDS
        elif now < self._tell_at:
            return
        else:
            self._pause = min(2 * self._pause, _LONGEST_SECONDS)
        self._reason, self._tell_at = reason, now + self._pause
        again = {"times": self.times} if self.times > 1 else {}
        self.log.warning(self.event, reason=reason, **again)

    def ended(self) -> None:
        """It works, maybe again."""
        if self.times > 1:
            self.log.info(f"{self.event}, and works again", times=self.times)
        self.times = 0
