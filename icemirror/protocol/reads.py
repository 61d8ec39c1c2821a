"""The rows that each event reads. A store loads only these, which keeps a large fleet fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from icemirror.protocol.events import (
    Completed,
    Declined,
    Dispatch,
    Event,
    Failed,
    HeadRead,
    HeadReadFailed,
    Heartbeat,
    Leave,
    LingerPoll,
    Noticed,
    Paused,
    Pick,
    Progressed,
    RecoverSlot,
    RecoverTable,
    ReplayCancelled,
    Replayed,
    ReplayRequested,
    Rescan,
    Resumed,
    RunRecorded,
    SlotResumed,
    Started,
    TurnEnded,
)
from icemirror.protocol.rows import SlotId


@dataclass(frozen=True, slots=True)
class Reads:
    """Keys of the rows to load; None: all rows of that kind."""

    tables: frozenset[str] | None
    slots: frozenset[SlotId] | None


EVERYTHING = Reads(None, None)
NO_TABLE: frozenset[str] = frozenset()
NO_SLOT: frozenset[SlotId] = frozenset()


def reads_of(event: Event) -> Reads:
    """Return the rows that `step` reads for this event."""
    match event:
        case (
            Noticed()
            | HeadRead()
            | HeadReadFailed()
            | Paused()
            | Resumed()
            | ReplayRequested()
            | ReplayCancelled()
        ):
            return Reads(frozenset({event.table}), NO_SLOT)
        case Progressed() | Replayed() | Completed() | Failed():
            return Reads(frozenset({event.table}), NO_SLOT)
        case RecoverTable():
            return Reads(frozenset({event.table}), None)
        case RunRecorded() | SlotResumed():
            return Reads(NO_TABLE, frozenset({event.slot}))
        case Started() | Heartbeat() | Leave():
            return Reads(NO_TABLE, frozenset({event.me.slot}))
        case Declined():
            return Reads(frozenset({event.table}), frozenset({event.me.slot}))
        case TurnEnded():
            return Reads(None, NO_SLOT)
        case Pick() | LingerPoll() | Rescan():
            return Reads(None, frozenset({event.me.slot}))
        case Dispatch() | RecoverSlot():
            return EVERYTHING
    assert_never(event)
