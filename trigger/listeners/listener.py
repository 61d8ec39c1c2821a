"""The interface of listeners, the sink for their events, and their retries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from icemirror.errors import IcemirrorError, Transient
from icemirror.telemetry.logs import get_log
from trigger.dispatch.ingest import EventIngest, IngestOutcome, NotStored
from trigger.sources.refusal import Refusal

_MAX_BACKOFF_SECONDS = 30.0

log = get_log(__name__)


class Listener(Protocol):
    """Receives events until it is stopped. What it received by then is still stored and acknowledged."""

    name: str

    async def run(self, stop: asyncio.Event) -> None:
        """Listen. Retry transient failures; raise errors that require action."""


@dataclass(frozen=True)
class EventSink:
    """Ingests a listener's events off the event loop, and wakes the rounds."""

    ingest: EventIngest
    wake: Callable[[], None]
    record_heartbeat: Callable[[str, bool, str], None]

    async def accept(self, source: str, bodies: Sequence[bytes]) -> list[IngestOutcome]:
        """Return the outcome of each event, when it is stored. A dead letter that cannot be kept is `NotStored`."""
        outcomes = await asyncio.to_thread(self._accept, source, bodies)
        self.wake()
        return outcomes

    def _accept(self, source: str, bodies: Sequence[bytes]) -> list[IngestOutcome]:
        outcomes = self.ingest.accept(bodies)
        return [
            self._keep_refused(source, body, outcome) for body, outcome in zip(bodies, outcomes, strict=True)
        ]

    def _keep_refused(self, source: str, body: bytes, outcome: IngestOutcome) -> IngestOutcome:
        if isinstance(outcome, Refusal):
            try:
                self.ingest.keep_dead_letter(source, body, outcome)
            except Transient as error:
                return NotStored(error)
        return outcome


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait this long, or until the listener is stopped."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


def backoff_seconds(failures: int) -> float:
    """Return how long to wait after the n-th failure in a row."""
    return min(0.5 * 2.0 ** min(failures, 10), _MAX_BACKOFF_SECONDS)


def describe_failure(error: Exception) -> str:
    """Return the message of a failure, with its type unless it is an icemirror error."""
    return str(error) if isinstance(error, IcemirrorError) else f"{type(error).__name__}: {error}"


def log_listener_failure(name: str, error: Exception) -> None:
    """Log a failure that is retried."""
    log.warning("listener failed, retrying", listener=name, reason=describe_failure(error))
