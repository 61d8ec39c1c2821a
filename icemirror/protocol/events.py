"""Events of the protocol. Each reads some rows and changes at most one; `now` is the sender's time.

docs/development/change-the-trigger.md lists the numbered rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from icemirror.protocol.replay import Replay, ReplayProgress
from icemirror.protocol.rows import Owner, PlannedBacklog, SlotId, TurnSummary
from icemirror.result import ErrorResult
from icemirror.step_results import MirrorStatus

ConfiguredTables = frozenset[str]
"""Names of the tables in the sender's configuration; other rows are skipped. None: all tables of the group."""


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
    """A hint arrived: the changelog may have a new head (rule 1)."""

    now: float
    table: str
    options: SchedulingOptions
    head: str | None = None


@dataclass(frozen=True, slots=True)
class HeadRead:
    """The changelog's head was read: a notice if the head is new or the table is due for a recheck (rule 13)."""

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
    """The table's owner may be dead (rule 7). `log_location`: where its output is."""

    now: float
    table: str
    jitter: float
    log_location: str = ""


@dataclass(frozen=True, slots=True)
class PauseRequested:
    """A user pauses the table: take no more work for it."""

    now: float
    table: str


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    """A user resumes the table: lift a quarantine, and merge again (rule 14)."""

    now: float
    table: str


@dataclass(frozen=True, slots=True)
class ReplayRequested:
    """A user requested a replay or a rebuild; lifts a quarantine (rule 15)."""

    now: float
    table: str
    options: SchedulingOptions
    replay: Replay


@dataclass(frozen=True, slots=True)
class ReplayCancelled:
    """A user cancelled the replay (rule 16)."""

    now: float
    table: str
    replay_id: str


# --- slots, sent by the trigger --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The trigger launches a worker if the group needs one (rule 2)."""

    now: float
    group: str
    tables: ConfiguredTables | None = None


@dataclass(frozen=True, slots=True)
class RunRecorded:
    """The launcher returned a run (rule 3)."""

    now: float
    slot: SlotId
    gen: int
    run_id: str


@dataclass(frozen=True, slots=True)
class RecoverSlot:
    """The slot had this `gen` and `run_id`; `run` is what the launcher reports of that run (rules 5, 6).

    `log_location`: where the run's output is. `launch_error`: why the launcher refused the launch, if there is no run.
    """

    now: float
    slot: SlotId
    gen: int
    run_id: str | None
    run: RunState
    jitter: float
    log_location: str = ""
    launch_error: str = ""


@dataclass(frozen=True, slots=True)
class SlotResumeRequested:
    """A user resumes the slot: launch workers in it again."""

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
    """The worker has started (rule 4)."""

    now: float
    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The worker is alive (rule 8). `has_had_turn`: it has had a turn, so its launch did not fail."""

    now: float
    worker: WorkerId
    has_had_turn: bool = False


@dataclass(frozen=True, slots=True)
class Pick:
    """The worker picks a table, or lingers if none is due (rules 8, 11)."""

    now: float
    worker: WorkerId
    tables: ConfiguredTables | None = None


@dataclass(frozen=True, slots=True)
class Progressed:
    """A slice was committed, or another commit came first (rule 9). Returns the owner and the current `dirty`."""

    now: float
    worker: WorkerId
    table: str
    mirror_status: MirrorStatus | None = None
    replay_id: str | None = None
    progress: ReplayProgress | None = None
    planned: PlannedBacklog | None = None


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """Like `Progressed`, but releases the table if other tables wait, or if `releases_table` is set."""

    now: float
    worker: WorkerId
    table: str
    mirror_status: MirrorStatus | None = None
    run: TurnSummary | None = None
    tables: ConfiguredTables | None = None
    releases_table: bool = False
    replay_id: str | None = None
    progress: ReplayProgress | None = None
    planned: PlannedBacklog | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """The replay is complete (rule 17)."""

    now: float
    worker: WorkerId
    table: str
    replay_id: str
    progress: ReplayProgress | None = None
    mirror_status: MirrorStatus | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """The plan was empty: the mirror is merged up to `head`, loaded after `dirty` was read at `read_at` (rule 9)."""

    now: float
    worker: WorkerId
    table: str
    dirty: int
    read_at: float
    head: str
    mirror_status: MirrorStatus | None = None
    run: TurnSummary | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Merging the table failed or, with `replay_id`, that replay failed (rule 10)."""

    now: float
    worker: WorkerId
    table: str
    error: ErrorResult
    jitter: float
    run: TurnSummary | None = None
    replay_id: str | None = None


@dataclass(frozen=True, slots=True)
class Declined:
    """The worker's configuration lacks a table it was launched for (rule 18). `error`: why it may be incomplete."""

    now: float
    worker: WorkerId
    table: str
    jitter: float
    error: ErrorResult | None = None


@dataclass(frozen=True, slots=True)
class LingerPoll:
    """A lingering worker polls for work (rule 11)."""

    now: float
    worker: WorkerId
    tables: ConfiguredTables | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """A lingering worker releases its slot (rule 12)."""

    now: float
    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Rescan:
    """The worker checks once more after `Leave`: a notice in between saw the slot still taken (rule 12)."""

    now: float
    worker: WorkerId
    tables: ConfiguredTables | None = None


TableEvent = (
    Noticed
    | HeadRead
    | HeadReadFailed
    | RecoverTable
    | PauseRequested
    | ResumeRequested
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
    | SlotResumeRequested
    | Started
    | Heartbeat
    | Pick
    | LingerPoll
    | Leave
    | Rescan
)
Event = TableEvent | SlotEvent
