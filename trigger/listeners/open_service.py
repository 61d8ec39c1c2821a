"""Builds the long-running trigger from the settings."""

from __future__ import annotations

import asyncio

from icemirror.errors import BadConfig
from icemirror.settings import Settings
from trigger.intake import Intake
from trigger.listeners.listener import Desk, Listener
from trigger.pulse import Pulse
from trigger.reporting import Reporting
from trigger.rounds import Rounds
from trigger.serve import MOST_SECONDS, ROUNDS, Bell, Service


def open_service(
    settings: Settings, intake: Intake, reporting: Reporting, loop: asyncio.AbstractEventLoop
) -> Service:
    """The long-running trigger of a configuration, for `loop`, with a listener for each of its sources."""
    sources, bell = settings.trigger.sources, Bell(loop)
    names = [name for name in ("kafka", "sqs") if getattr(sources, name) is not None]
    pulse = Pulse((ROUNDS, *names), MOST_SECONDS)
    desk = Desk(intake, bell.ring, pulse.beat)
    listeners: list[Listener] = []
    if sources.kafka is not None:
        if not sources.kafka.topics:
            raise BadConfig(
                "trigger.sources.kafka.topics: name at least one, or remove trigger.sources.kafka"
            )
        from trigger.listeners.kafka import KafkaListener

        listeners.append(KafkaListener(sources.kafka, settings.source_path.absolute().parent, desk))
    if sources.sqs is not None:
        from trigger.listeners.sqs import SqsListener

        listeners.append(SqsListener(sources.sqs, desk))
    rounds = Rounds(intake.fleet, reporting, settings.merge_interval, alive=lambda: pulse.touch(ROUNDS))
    return Service(intake, rounds, listeners, pulse, bell)
