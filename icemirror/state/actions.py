"""What is to be done after a step, by whoever sent the event."""

from __future__ import annotations

from dataclasses import dataclass

from icemirror.state.replay import Replay
from icemirror.state.rows import SlotId


@dataclass(frozen=True, slots=True)
class Launch:
    """Trigger: launch a worker with the token of this generation of the slot, then record its run."""

    slot: SlotId
    gen: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Trigger: this run has lost its slot although it may still live; end it if you can."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Held:
    """Worker: the slot is yours, at this generation; it was asked for at `launched_at`, by the trigger's clock."""

    gen: int
    launched_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Merge:
    """Worker: this table is yours; an empty plan from now on covers this many notices. A replay comes first."""

    table: str
    dirty: int
    replay: Replay | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Person: another request is there already, this one."""

    replay: Replay


@dataclass(frozen=True, slots=True)
class Released:
    """Worker: the table, or the slot, is no longer yours, as you asked."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Worker: the table is no longer yours, and you have not given it away: leave it alone."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Worker: nothing to take.

    `due_at`: when a waiting table may be taken, if nothing else happens. `strangers`: tables that this worker
    does not know may be taken now, so one with the configuration of today should come in its place. `unknown`: those of
    them that it was launched for.
    """

    due_at: float | None
    strangers: bool = False
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exit:
    """Worker: the slot is not yours. Stop."""


Action = Launch | Cancel | Held | Merge | Refused | Released | Lost | Idle | Exit
