"""Which rows an event needs to see: a store loads no more, and a busy fleet stays quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from icemirror.state.events import (
    Beat,
    Completed,
    Dispatch,
    Event,
    Failed,
    Leave,
    Looked,
    LookFailed,
    Noticed,
    PassedBy,
    Paused,
    Pick,
    Progressed,
    Recorded,
    Recover,
    ReplayCancelled,
    Replayed,
    ReplayRequested,
    Resumed,
    Retake,
    SlotResumed,
    Started,
    TurnEnded,
    Unown,
    Wake,
)
from icemirror.state.rows import SlotId


@dataclass(frozen=True, slots=True)
class Reads:
    """The keys to load; None: all of that kind."""

    tables: frozenset[str] | None
    slots: frozenset[SlotId] | None


EVERYTHING = Reads(None, None)
NO_TABLE: frozenset[str] = frozenset()
NO_SLOT: frozenset[SlotId] = frozenset()


def reads_of(event: Event) -> Reads:
    """The rows that `step` looks at for this event."""
    match event:
        case (
            Noticed() | Looked() | LookFailed() | Paused() | Resumed() | ReplayRequested() | ReplayCancelled()
        ):
            return Reads(frozenset({event.table}), NO_SLOT)
        case Progressed() | Replayed() | Completed() | Failed():
            return Reads(frozenset({event.table}), NO_SLOT)
        case Unown():
            return Reads(frozenset({event.table}), None)
        case Recorded() | SlotResumed():
            return Reads(NO_TABLE, frozenset({event.slot}))
        case Started() | Beat() | Leave():
            return Reads(NO_TABLE, frozenset({event.me.slot}))
        case PassedBy():
            return Reads(frozenset({event.table}), frozenset({event.me.slot}))
        case TurnEnded():
            return Reads(None, NO_SLOT)
        case Pick() | Wake() | Retake():
            return Reads(None, frozenset({event.me.slot}))
        case Dispatch() | Recover():
            return EVERYTHING
    assert_never(event)
