"""Actions that `step` returns: what the sender of an event has to do next."""

from __future__ import annotations

from dataclasses import dataclass

from icemirror.protocol.replay import Replay
from icemirror.protocol.rows import SlotId


@dataclass(frozen=True, slots=True)
class Launch:
    """The trigger launches a worker with the token of this slot generation, then records its run."""

    slot: SlotId
    gen: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """The trigger cancels this run if possible; it lost its slot but may still be running."""

    run_id: str


@dataclass(frozen=True, slots=True)
class SlotHeld:
    """The worker holds the slot at this generation. `launched_at` is the launch time by the trigger's clock."""

    gen: int
    launched_at: float = 0.0


@dataclass(frozen=True, slots=True)
class MergeTable:
    """The worker owns this table. It runs the replay first, if there is one.

    An empty plan made after this action covers `dirty` notices.
    """

    table: str
    dirty: int
    replay: Replay | None = None


@dataclass(frozen=True, slots=True)
class ReplayRefused:
    """The user's request is refused because this other replay is pending."""

    replay: Replay


@dataclass(frozen=True, slots=True)
class Released:
    """The table or slot is released, as the worker requested."""


@dataclass(frozen=True, slots=True)
class TableLost:
    """The worker no longer owns the table, and stops working on it."""


@dataclass(frozen=True, slots=True)
class Idle:
    """There is no table that the worker can take.

    `due_at`: when the next waiting table becomes due.
    `unknown_tables_due`: tables missing from this worker's configuration are due, so a worker with a newer
    configuration should replace it.
    `unknown_tables`: those of them that this worker was launched for.
    """

    due_at: float | None
    unknown_tables_due: bool = False
    unknown_tables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StopWorker:
    """The worker does not hold the slot, and stops."""


Action = Launch | Cancel | SlotHeld | MergeTable | ReplayRefused | Released | TableLost | Idle | StopWorker
