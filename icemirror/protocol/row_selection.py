"""The rows that each event reads. A store loads only these, which keeps a state with many tables fast."""

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
    PauseRequested,
    Pick,
    Progressed,
    RecoverSlot,
    RecoverTable,
    ReplayCancelled,
    Replayed,
    ReplayRequested,
    Rescan,
    ResumeRequested,
    RunRecorded,
    SlotResumeRequested,
    Started,
    TurnEnded,
)
from icemirror.protocol.rows import SlotId


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Keys of the rows to load; None: all tables, or all slots."""

    tables: frozenset[str] | None
    slots: frozenset[SlotId] | None


ALL_ROWS = RowSelection(None, None)
NO_TABLES: frozenset[str] = frozenset()
NO_SLOTS: frozenset[SlotId] = frozenset()


def rows_to_read(event: Event) -> RowSelection:
    """Return the rows that `step` reads for this event."""
    match event:
        case (
            Noticed()
            | HeadRead()
            | HeadReadFailed()
            | PauseRequested()
            | ResumeRequested()
            | ReplayRequested()
            | ReplayCancelled()
        ):
            return RowSelection(frozenset({event.table}), NO_SLOTS)
        case Progressed() | Replayed() | Completed() | Failed():
            return RowSelection(frozenset({event.table}), NO_SLOTS)
        case RecoverTable():
            return RowSelection(frozenset({event.table}), None)
        case RunRecorded() | SlotResumeRequested():
            return RowSelection(NO_TABLES, frozenset({event.slot}))
        case Started() | Heartbeat() | Leave():
            return RowSelection(NO_TABLES, frozenset({event.worker.slot}))
        case Declined():
            return RowSelection(frozenset({event.table}), frozenset({event.worker.slot}))
        case TurnEnded():
            return RowSelection(None, NO_SLOTS)
        case Pick() | LingerPoll() | Rescan():
            return RowSelection(None, frozenset({event.worker.slot}))
        case Dispatch() | RecoverSlot():
            return ALL_ROWS
    assert_never(event)
