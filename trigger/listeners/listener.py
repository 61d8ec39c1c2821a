"""What a listener does, whatever it listens to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from icemirror.errors import IcemirrorError, Transient
from icemirror.telemetry.logs import get_log
from trigger.intake import Intake, Outcome
from trigger.sources.refused import Refused

_LONGEST_PAUSE_SECONDS = 30.0

log = get_log(__name__)


class Listener(Protocol):
    """Hears events until it is told to stop; what it has heard by then it still stores and acknowledges."""

    name: str

    async def run(self, stop: asyncio.Event) -> None:
        """Listens. Comes back from what passes by itself; raises what needs a person."""


@dataclass(frozen=True)
class Desk:
    """Takes what a listener has heard, off the event loop, and wakes whoever launches."""

    intake: Intake
    wake: Callable[[], None]
    beat: Callable[[str, bool, str], None]

    async def take(self, source: str, bodies: Sequence[bytes]) -> list[Outcome]:
        """What became of each event; when this returns it is stored. A letter that cannot be kept is `Transient`."""
        outcomes = await asyncio.to_thread(self._take, source, bodies)
        self.wake()
        return outcomes

    def _take(self, source: str, bodies: Sequence[bytes]) -> list[Outcome]:
        outcomes = self.intake.take(bodies)
        for at, outcome in enumerate(outcomes):
            if isinstance(outcome, Refused):
                try:
                    self.intake.bury(source, bodies[at], outcome)
                except Transient as error:
                    outcomes[at] = error
        return outcomes


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Waits, but not when it is told to stop."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


def backoff(failures: int) -> float:
    """Seconds to wait after the n-th failure in a row."""
    return min(0.5 * 2.0 ** min(failures, 10), _LONGEST_PAUSE_SECONDS)


def reason_of(error: Exception) -> str:
    """What to say of a failure."""
    return str(error) if isinstance(error, IcemirrorError) else f"{type(error).__name__}: {error}"


def say_failed(name: str, error: Exception) -> None:
    """A listener goes on after a while; a person may want to know."""
    log.warning("listening failed, trying again", listener=name, reason=reason_of(error))
