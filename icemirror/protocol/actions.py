"""Actions that `step` returns: what the sender of an event has to do next."""

from __future__ import annotations

from dataclasses import dataclass

from icemirror.protocol.replay import Replay
from icemirror.protocol.rows import SlotId


@dataclass(frozen=True, slots=True)
class Launch:
    """Trigger: launch a worker with the token of this slot generation, then record its run."""

    slot: SlotId
    gen: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Trigger: cancel this run if possible; it lost its slot but may still be running."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Held:
    """Worker: you hold the slot at this generation. `launched_at` is the launch time by the trigger's clock."""

    gen: int
    launched_at: float = 0.0


@dataclass(frozen=True, slots=True)
class MergeTable:
    """Worker: you own this table. Run the replay first, if there is one.

    An empty plan made after this action covers `dirty` notices.
    """

    table: str
    dirty: int
    replay: Replay | None = None


@dataclass(frozen=True, slots=True)
class ReplayRefused:
    """User: the request is refused because this other replay is pending."""

    replay: Replay


@dataclass(frozen=True, slots=True)
class Released:
    """Worker: the table or slot is released, as you requested."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Worker: you no longer own the table. Stop working on it."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Worker: there is no table to take.

    `due_at`: when the next waiting table becomes due.
    `unknown_tables_due`: tables missing from this worker's configuration are due, so a worker with a newer
    configuration should replace it.
    `unknown`: those of them that this worker was launched for.
    """

    due_at: float | None
    unknown_tables_due: bool = False
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StopWorker:
    """Worker: you do not hold the slot. Stop."""


Action = Launch | Cancel | Held | MergeTable | ReplayRefused | Released | Lost | Idle | StopWorker
