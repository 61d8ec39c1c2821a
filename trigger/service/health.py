"""Health of a service: `/healthz` reports parts that hang, `/readyz` parts that cannot do their work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from icemirror.telemetry.logs import get_log

HANG_SECONDS = 120.0
"""A part without a heartbeat for this long hangs."""

_NOT_STARTED = "has not worked yet"

log = get_log(__name__)


class Health:
    """Heartbeats of all parts, and whether each did its work the last time. Safe for several threads."""

    def __init__(
        self,
        parts: Iterable[str],
        hang_seconds: float = HANG_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._hang_seconds = clock, hang_seconds
        self._beats = dict.fromkeys(parts, (clock(), _NOT_STARTED))

    def beat(self, part: str, works: bool, why: str = "") -> None:
        """Record a heartbeat and whether the part works; `why` it does not."""
        self._beats[part] = (self._clock(), "" if works else why or "does not work")

    def touch(self, part: str) -> None:
        """Record a heartbeat of a part that is still at work."""
        self._beats[part] = (self._clock(), self._beats[part][1])

    def hanging(self) -> list[str]:
        """Return the parts that hang. A part that cannot reach a server does not: a restart would not help."""
        now = self._clock()
        return sorted(part for part, (at, _) in self._beats.items() if now - at > self._hang_seconds)

    def unready(self) -> str:
        """Return which parts cannot do their work, and why; empty if all can."""
        hanging = self.hanging()
        reasons = {
            part: "hangs" if part in hanging else why for part, (_, why) in sorted(self._beats.items())
        }
        return "; ".join(f"{part}: {why}" for part, why in reasons.items() if why)


def liveness_probe(health: Health) -> Callable[[], bool]:
    """Return the check behind `/healthz`, which logs the parts that hang."""

    def is_alive() -> bool:
        hanging = health.hanging()
        if hanging:
            log.error("parts of the service hang", parts=hanging)
        return not hanging

    return is_alive
