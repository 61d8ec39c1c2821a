"""The long-running trigger: listeners and rounds in one process, until it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from icemirror.telemetry.logs import get_log
from trigger.intake import Intake
from trigger.listeners.listener import Listener
from trigger.pulse import Pulse
from trigger.rounds import Rounds

ROUNDS = "rounds"
MOST_SECONDS = 120.0
"""A part that is silent for so long hangs."""

log = get_log(__name__)


class Bell:
    """Wakes the rounds, from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._rung = loop, asyncio.Event()

    def ring(self) -> None:
        """There is something to launch, perhaps."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self, seconds: float) -> None:
        """Until it rings, or this time is over."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), seconds)
        self._rung.clear()


@dataclass(frozen=True)
class Service:
    """All parts."""

    intake: Intake
    rounds: Rounds
    listeners: Sequence[Listener]
    pulse: Pulse
    bell: Bell

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`: then every listener ends what it has begun, and a last round launches what is due by then."""
        log.info("serving", listeners=[one.name for one in self.listeners])
        parts = [asyncio.create_task(one.run(stop), name=one.name) for one in self.listeners]
        parts.append(asyncio.create_task(self._go_round(stop), name=ROUNDS))
        told = asyncio.create_task(stop.wait())
        await asyncio.wait([*parts, told], return_when=asyncio.FIRST_COMPLETED)
        stop.set()  # also where a part has failed: the others end in order
        self.bell.ring()
        await asyncio.wait([*parts, told])
        for part in parts:
            part.result()
        await asyncio.to_thread(self.rounds.once)
        log.info("stopped: what was heard is stored and acknowledged")

    async def _go_round(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            seconds, works = await asyncio.to_thread(self.rounds.once)
            self.pulse.beat(ROUNDS, works, self.rounds.problem)
            await self.bell.wait(seconds)


def say_hanging(pulse: Pulse) -> Callable[[], bool]:
    """`/healthz`, with a line in the log for whoever looks why it says no."""

    def is_alive() -> bool:
        hanging = pulse.hanging()
        if hanging:
            log.error("parts of the service hang", parts=hanging)
        return not hanging

    return is_alive
