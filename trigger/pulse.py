"""Is the service alive, and does it do what it is for? What `/healthz` and `/readyz` say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

_NOT_YET = "has not worked yet"


class Pulse:
    """Every part beats, and says whether it could do its work the last time, or why not. Several threads may use it."""

    def __init__(
        self, parts: Iterable[str], most_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock, self._most_seconds = clock, most_seconds
        self._beats = dict.fromkeys(parts, (clock(), _NOT_YET))

    def beat(self, part: str, works: bool, why: str = "") -> None:
        """This part lives; `why` it does not work."""
        self._beats[part] = (self._clock(), "" if works else why or "does not work")

    def touch(self, part: str) -> None:
        """This part lives; how its work went is told when it is done."""
        self._beats[part] = (self._clock(), self._beats[part][1])

    def hanging(self) -> list[str]:
        """The parts that have not been heard of for too long.

        One that cannot reach what it needs still lives: starting it anew would not help.
        """
        now = self._clock()
        return sorted(part for part, (at, _) in self._beats.items() if now - at > self._most_seconds)

    def unready(self) -> str:
        """Which parts cannot do their work, and why; empty if all can."""
        hanging = self.hanging()
        reasons = {
            part: "hangs" if part in hanging else why for part, (_, why) in sorted(self._beats.items())
        }
        return "; ".join(f"{part}: {why}" for part, why in reasons.items() if why)
