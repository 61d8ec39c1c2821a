"""The long-running trigger: listeners and rounds in one process, until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from icemirror.telemetry.logs import get_log
from trigger.dispatch.ingest import EventIngest
from trigger.listeners.listener import Listener
from trigger.service.health import ROUNDS, Health
from trigger.service.rounds import RoundLoop

log = get_log(__name__)


class WakeSignal:
    """Starts the next round early, from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._event = loop, asyncio.Event()

    def send(self) -> None:
        """Wake the rounds: there may be something to launch."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, seconds: float) -> None:
        """Wait for the signal, or until this time is over."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)
        self._event.clear()


@dataclass(frozen=True)
class Service:
    """The components of the trigger, which run at the same time."""

    ingest: EventIngest
    rounds: RoundLoop
    listeners: Sequence[Listener]
    health: Health
    wake_signal: WakeSignal

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Every listener finishes its batch, and a last round launches what is due."""
        log.info("serving", listeners=[listener.name for listener in self.listeners])
        components = [
            asyncio.create_task(listener.run(stop), name=listener.name) for listener in self.listeners
        ]
        components.append(asyncio.create_task(self._run_rounds(stop), name=ROUNDS))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([*components, stopped], return_when=asyncio.FIRST_COMPLETED)
        stop.set()  # also if a component has failed: the others shut down cleanly
        self.wake_signal.send()
        await asyncio.wait([*components, stopped])
        for component in components:
            component.result()
        await asyncio.to_thread(self.rounds.run_once)
        log.info("stopped")

    async def _run_rounds(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            rows = await asyncio.to_thread(self.rounds.run_once)
            self.health.record_heartbeat(ROUNDS, rows is not None, self.rounds.problem)
            await self.wake_signal.wait(self.rounds.pause_seconds(rows))
