"""Is the service alive, and does it do what it is for? What `/healthz` and `/readyz` say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable


class Pulse:
    """Every part beats, and says whether it could do its work the last time. Several threads may use it."""

    def __init__(
        self, parts: Iterable[str], most_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock, self._most_seconds = clock, most_seconds
        self._beats = dict.fromkeys(parts, (clock(), False))

    def beat(self, part: str, works: bool) -> None:
        """This part lives."""
        self._beats[part] = (self._clock(), works)

    def is_alive(self) -> bool:
        """No part hangs. One that cannot reach what it needs still lives: starting it anew would not help."""
        return not self.hanging()

    def hanging(self) -> list[str]:
        """The parts that have not been heard of for too long."""
        now = self._clock()
        return sorted(part for part, (at, _) in self._beats.items() if now - at > self._most_seconds)

    def is_ready(self) -> bool:
        """Every part could do its work the last time."""
        return self.is_alive() and all(works for _, works in self._beats.values())
