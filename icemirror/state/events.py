"""What may happen to the rows. Every event reads some rows and changes one at most; `now` comes with it.

The numbers are those of the rules in docs/trigger.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from icemirror.result import ErrorResult, Position
from icemirror.state.replay import Replay, ReplayProgress
from icemirror.state.rows import Owner, Planned, RunSummary, SlotId

Names = frozenset[str]
"""The tables that the sender knows of; rows of others are left alone. None: all of the group."""


class RunState(StrEnum):
    """What a launcher knows of a run."""

    QUEUED = "queued"
    RUNNING = "running"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Terms:
    """What the configuration says of a table; kept in its row for those who pick it."""

    group: str = "default"
    min_interval_seconds: float = 0.0


# --- tables, by the trigger and by people -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Noticed:
    """1. Somebody said that the changelog moved."""

    now: float
    table: str
    terms: Terms
    head: str | None = None


@dataclass(frozen=True, slots=True)
class Looked:
    """13. The changelog's head pointer was read: a notice, if nobody has noticed that head yet, or is overdue."""

    now: float
    table: str
    terms: Terms
    head: str


@dataclass(frozen=True, slots=True)
class LookFailed:
    """The changelog's head could not be read."""

    now: float
    table: str
    terms: Terms
    error: ErrorResult


@dataclass(frozen=True, slots=True)
class Unown:
    """7. The table's owner may be dead for good; `log` is where its output is."""

    now: float
    table: str
    jitter: float
    log: str = ""


@dataclass(frozen=True, slots=True)
class Paused:
    """Take no more work for this table."""

    now: float
    table: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """Take work for this table again, and look at its mirror; lifts a quarantine."""

    now: float
    table: str


@dataclass(frozen=True, slots=True)
class ReplayRequested:
    """15. A person wants a part of the changelog merged once more, or the mirror rebuilt; lifts a quarantine."""

    now: float
    table: str
    terms: Terms
    replay: Replay


@dataclass(frozen=True, slots=True)
class ReplayCancelled:
    """16. A person does not want that request any more."""

    now: float
    table: str
    replay_id: str


# --- slots, by the trigger --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dispatch:
    """2. A worker may be wanted."""

    now: float
    group: str
    tables: Names | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """3. The launcher answered with a run."""

    now: float
    slot: SlotId
    gen: int
    run_id: str


@dataclass(frozen=True, slots=True)
class Recover:
    """5, 6. The slot was seen with this gen and run, and the launcher asked about that very run.

    `log` is where its output is, or, of a launch without a run, why the launcher refused it.
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
    """Launch workers in this slot again."""

    now: float
    slot: SlotId


# --- slots and tables, by a worker ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Holder:
    """A worker, as it stands in its slot's row."""

    slot: SlotId
    gen: int
    run_id: str

    @property
    def owner(self) -> Owner:
        """The worker, as it stands in the row of a table that it has taken."""
        return Owner(self.slot, self.gen)


@dataclass(frozen=True, slots=True)
class Started:
    """4. The job runs."""

    now: float
    me: Holder


@dataclass(frozen=True, slots=True)
class Beat:
    """8. The worker lives. `proven`: it has had a turn, so launching it was no failure."""

    now: float
    me: Holder
    proven: bool = False


@dataclass(frozen=True, slots=True)
class Pick:
    """8, 11. The worker wants a table; where there is none, it lingers."""

    now: float
    me: Holder
    tables: Names | None = None


@dataclass(frozen=True, slots=True)
class Progressed:
    """9. A slice was committed, or another's commit came first: is the table mine, how dirty is it now?"""

    now: float
    me: Holder
    table: str
    position: Position | None = None
    replay_id: str | None = None
    progress: ReplayProgress | None = None
    planned: Planned | None = None


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """As `Progressed`, but gives the table back if others wait, or anyway."""

    now: float
    me: Holder
    table: str
    position: Position | None = None
    run: RunSummary | None = None
    tables: Names | None = None
    give_back: bool = False
    replay_id: str | None = None
    progress: ReplayProgress | None = None
    planned: Planned | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """17. All that this request asked for is done."""

    now: float
    me: Holder
    table: str
    replay_id: str
    progress: ReplayProgress | None = None
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """9. An empty plan: the mirror holds all up to `head`, loaded after `dirty` was read at `read_at`."""

    now: float
    me: Holder
    table: str
    dirty: int
    read_at: float
    head: str
    position: Position | None = None
    run: RunSummary | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """10. Merging the table failed, or (`replay_id`) what that request asked for."""

    now: float
    me: Holder
    table: str
    error: ErrorResult
    jitter: float
    run: RunSummary | None = None
    replay_id: str | None = None


@dataclass(frozen=True, slots=True)
class PassedBy:
    """18. The worker was launched for this table, and does not know it; `error`: why it may not know all of them."""

    now: float
    me: Holder
    table: str
    jitter: float
    error: ErrorResult | None = None


@dataclass(frozen=True, slots=True)
class Wake:
    """11. A lingering worker looks for work."""

    now: float
    me: Holder
    tables: Names | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """12. A lingering worker gives its slot back …"""

    now: float
    me: Holder


@dataclass(frozen=True, slots=True)
class Retake:
    """12. … and looks once more, since whoever noticed in between saw its slot still taken."""

    now: float
    me: Holder
    tables: Names | None = None


TableEvent = (
    Noticed
    | Looked
    | LookFailed
    | Unown
    | Paused
    | Resumed
    | ReplayRequested
    | ReplayCancelled
    | Progressed
    | TurnEnded
    | Replayed
    | Completed
    | Failed
    | PassedBy
)
SlotEvent = Dispatch | Recorded | Recover | SlotResumed | Started | Beat | Pick | Wake | Leave | Retake
Event = TableEvent | SlotEvent
