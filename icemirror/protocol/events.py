"""Events of the protocol. Each reads some rows and changes at most one; `now` is the sender's time.

docs/explanation/trigger.md explains the numbered rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from icemirror.protocol.replay import Replay, ReplayProgress
from icemirror.protocol.rows import Owner, PlannedBacklog, RunSummary, SlotId
from icemirror.result import ErrorResult, Position

KnownTables = frozenset[str]
"""Tables in the sender's configuration; other rows are skipped. None: all tables of the group."""


class RunState(StrEnum):
    """The state of a run, as its launcher reports it."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SchedulingOptions:
    """Settings of a table that its row keeps, because picking a table depends on them."""

    group: str = "default"
    min_interval_seconds: float = 0.0


class ScheduledTable(Protocol):
    """The part of a table's settings that scheduling needs."""

    @property
    def group(self) -> str:
        """Tables of one group share workers."""

    @property
    def min_interval(self) -> float:
        """Minimum seconds between merges."""


def scheduling_options(table: ScheduledTable) -> SchedulingOptions:
    """Return the settings that the table's row keeps."""
    return SchedulingOptions(table.group, table.min_interval)


# --- tables, sent by the trigger and by users -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Noticed:
    """Rule 1: A hint arrived: the changelog may have a new head."""

    now: float
    table: str
    options: SchedulingOptions
    head: str | None = None


@dataclass(frozen=True, slots=True)
class HeadRead:
    """Rule 13: The changelog's head was read. It is a notice if the head is new or the table is due for a recheck."""

    now: float
    table: str
    options: SchedulingOptions
    head: str


@dataclass(frozen=True, slots=True)
class HeadReadFailed:
    """Reading the changelog's head failed."""

    now: float
    table: str
    options: SchedulingOptions
    error: ErrorResult


@dataclass(frozen=True, slots=True)
class RecoverTable:
    """Rule 7: The table's owner may be dead; `log` is the location of its output."""

    now: float
    table: str
    jitter: float
    log: str = ""


@dataclass(frozen=True, slots=True)
class Paused:
    """A user paused the table: take no more work for it."""

    now: float
    table: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """A user resumed the table: lift a quarantine, and merge again."""

    now: float
    table: str


@dataclass(frozen=True, slots=True)
class ReplayRequested:
    """Rule 15: A user requested a replay or a rebuild; lifts a quarantine."""

    now: float
    table: str
    options: SchedulingOptions
    replay: Replay


@dataclass(frozen=True, slots=True)
class ReplayCancelled:
    """Rule 16: A user cancelled the replay."""

    now: float
    table: str
    replay_id: str


# --- slots, sent by the trigger --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Rule 2: Launch a worker if the group needs one."""

    now: float
    group: str
    tables: KnownTables | None = None


@dataclass(frozen=True, slots=True)
class RunRecorded:
    """Rule 3: The launcher returned a run."""

    now: float
    slot: SlotId
    gen: int
    run_id: str


@dataclass(frozen=True, slots=True)
class RecoverSlot:
    """Rules 5, 6: The slot had this `gen` and `run_id`, and `run` is what the launcher reports of that run.

    `log` is the location of its output or, if there is no run, why the launcher refused the launch.
    """

    now: float
    slot: SlotId
    gen: int
    run_id: str | None
    run: RunState
    jitter: float
    log: str = ""


@dataclass(frozen=True, slots=True)
class SlotResumed:
    """A user resumed the slot: launch workers in it again."""

    now: float
    slot: SlotId


# --- slots and tables, sent by a worker ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkerId:
    """Identity of a worker in its slot's row."""

    slot: SlotId
    gen: int
    run_id: str

    @property
    def owner(self) -> Owner:
        """Identity of the worker in the row of a table that it owns."""
        return Owner(self.slot, self.gen)


@dataclass(frozen=True, slots=True)
class Started:
    """Rule 4: The worker has started."""

    now: float
    me: WorkerId


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Rule 8: The worker is alive. `has_had_turn`: it has had a turn, so its launch did not fail."""

    now: float
    me: WorkerId
    has_had_turn: bool = False


@dataclass(frozen=True, slots=True)
class Pick:
    """Rules 8, 11: The worker picks a table, or lingers if none is due."""

    now: float
    me: WorkerId
    tables: KnownTables | None = None


@dataclass(frozen=True, slots=True)
class Progressed:
    """Rule 9: A slice was committed, or another commit came first. Returns the owner and the current `dirty`."""

    now: float
    me: WorkerId
    table: str
    position: Position | None = None
    replay_id: str | None = None
    progress: ReplayProgress | None = None
    planned: PlannedBacklog | None = None


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """Like `Progressed`, but releases the table if other tables wait, or if `releases_table` is set."""

    now: float
    me: WorkerId
    table: str
    position: Position | None = None
    run: RunSummary | None = None
    tables: KnownTables | None = None
    releases_table: bool = False
    replay_id: str | None = None
    progress: ReplayProgress | None = None
    planned: PlannedBacklog | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """Rule 17: The replay is complete."""

    now: float
    me: WorkerId
    table: str
    replay_id: str
    progress: ReplayProgress | None = None
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """Rule 9: The plan was empty: the mirror is merged up to `head`, loaded after `dirty` was read at `read_at`."""

    now: float
    me: WorkerId
    table: str
    dirty: int
    read_at: float
    head: str
    position: Position | None = None
    run: RunSummary | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Rule 10: Merging the table failed or, with `replay_id`, that replay failed."""

    now: float
    me: WorkerId
    table: str
    error: ErrorResult
    jitter: float
    run: RunSummary | None = None
    replay_id: str | None = None


@dataclass(frozen=True, slots=True)
class Declined:
    """Rule 18: The worker's configuration lacks a table it was launched for; `error`: why it may be incomplete."""

    now: float
    me: WorkerId
    table: str
    jitter: float
    error: ErrorResult | None = None


@dataclass(frozen=True, slots=True)
class LingerPoll:
    """Rule 11: A lingering worker polls for work."""

    now: float
    me: WorkerId
    tables: KnownTables | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """Rule 12: A lingering worker releases its slot …"""

    now: float
    me: WorkerId


@dataclass(frozen=True, slots=True)
class Rescan:
    """Rule 12: … and checks once more, because a notice in between saw the slot still taken."""

    now: float
    me: WorkerId
    tables: KnownTables | None = None


TableEvent = (
    Noticed
    | HeadRead
    | HeadReadFailed
    | RecoverTable
    | Paused
    | Resumed
    | ReplayRequested
    | ReplayCancelled
    | Progressed
    | TurnEnded
    | Replayed
    | Completed
    | Failed
    | Declined
)
SlotEvent = (
    Dispatch
    | RunRecorded
    | RecoverSlot
    | SlotResumed
    | Started
    | Heartbeat
    | Pick
    | LingerPoll
    | Leave
    | Rescan
)
Event = TableEvent | SlotEvent
