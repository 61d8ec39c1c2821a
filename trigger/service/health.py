"""Health of a service: `/healthz` reports components that hang, `/readyz` components that cannot do their work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from icemirror.telemetry.logs import get_log

ROUNDS = "rounds"
"""The component that runs the rounds; the other components are listeners."""

HANG_SECONDS = 120.0
"""A component without a heartbeat for this long hangs."""

_NOT_STARTED = "not started"

log = get_log(__name__)


class Health:
    """Heartbeats of all components, and the last known problem of each. Safe for several threads."""

    def __init__(
        self,
        components: Iterable[str],
        hang_seconds: float = HANG_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._hang_seconds = clock, hang_seconds
        self._beats = dict.fromkeys(components, (clock(), _NOT_STARTED))

    def record_heartbeat(self, component: str, works: bool, problem: str = "") -> None:
        """Record a heartbeat and whether the component works; `problem`: why it does not."""
        self._beats[component] = (self._clock(), "" if works else problem or "does not work")

    def touch(self, component: str) -> None:
        """Record a heartbeat of a component that is still at work."""
        self._beats[component] = (self._clock(), self._beats[component][1])

    def hanging_components(self) -> list[str]:
        """Return the components that hang. One that cannot reach a server does not: a restart would not help."""
        now = self._clock()
        return sorted(
            component for component, (beat_at, _) in self._beats.items() if now - beat_at > self._hang_seconds
        )

    def describe_unready(self) -> str:
        """Return which components cannot do their work, and why; empty if all can."""
        hanging = self.hanging_components()
        reasons = {
            component: "hangs" if component in hanging else problem
            for component, (_, problem) in sorted(self._beats.items())
        }
        return "; ".join(f"{component}: {problem}" for component, problem in reasons.items() if problem)


def liveness_probe(health: Health) -> Callable[[], bool]:
    """Return the check behind `/healthz`, which logs the components that do not respond."""

    def is_alive() -> bool:
        hanging = health.hanging_components()
        if hanging:
            log.error("components not responding", components=hanging)
        return not hanging

    return is_alive
