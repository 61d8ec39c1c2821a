"""A service with one listener, on the running loop."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.trigger.scene import BY_NAME, Scene
from trigger.dispatch.ingest import EventIngest
from trigger.listeners.listener import EventSink
from trigger.service.health import ROUNDS, Health
from trigger.service.rounds import RoundLoop
from trigger.service.service import Service, WakeSignal
from trigger.status.run_reporter import RunReporter


def rounds_of(scene: Scene) -> RoundLoop:
    reporter = RunReporter(scene.store, scene.metrics, "")
    return RoundLoop(scene.dispatcher, reporter, sweep_seconds=3600.0, clock=lambda: scene.now)


class SingleEventListener:
    """Receives one event, then waits for the stop and records it."""

    name = "one-event"

    def __init__(self, sink: EventSink) -> None:
        self.sink, self.ended = sink, False

    async def run(self, stop: asyncio.Event) -> None:
        await self.sink.accept(self.name, [BY_NAME])
        self.sink.record_heartbeat(self.name, True, "")
        await stop.wait()
        self.ended = True


class ServiceHarness:
    """A service on the running loop."""

    def __init__(self, scene: Scene) -> None:
        self.wake_signal = WakeSignal(asyncio.get_running_loop())
        self.health = Health((ROUNDS, "one-event"), 120.0, clock=lambda: scene.now)
        self.sink = EventSink(scene.ingest, self.wake_signal.send, self.health.record_heartbeat)
        self.listener = SingleEventListener(self.sink)
        self.rounds = rounds_of(scene)

    def service(self, ingest: EventIngest, *more: Any) -> Service:
        return Service(ingest, self.rounds, [self.listener, *more], self.health, self.wake_signal)
