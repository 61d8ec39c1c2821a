"""The state rows that the trigger and its workers share: tables and slots, changed only by compare-and-set.

`revision` belongs to the store. `extra` keeps unknown fields of later releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from icemirror.protocol.replay import Replay, ReplayEnd
from icemirror.result import ErrorResult
from icemirror.step_results import Backlog, MirrorStatus


class SlotState(StrEnum):
    """The state of a slot and its worker."""

    FREE = "free"
    LAUNCHING = "launching"
    RUNNING = "running"
    LINGERING = "lingering"


@dataclass(frozen=True, slots=True, order=True)
class SlotId:
    """One of a group's slots; each holds at most one worker."""

    group: str
    index: int

    def __str__(self) -> str:
        return f"{self.group}-{self.index}"


@dataclass(frozen=True, slots=True)
class Owner:
    """The worker that owns a table: a slot and its generation, which is never used twice."""

    slot: SlotId
    gen: int


@dataclass(frozen=True, slots=True)
class TurnSummary:
    """Summary of a worker's last turn on a table."""

    run_id: str
    started_at: float
    ended_at: float
    outcome: Literal["merged", "up-to-date", "rebuilt", "failed"]
    events: int


@dataclass(frozen=True, slots=True)
class PlannedBacklog:
    """The backlog as a worker planned it last. `left`: what it did not merge yet. `dirty`: the notices at that time."""

    left: Backlog
    dirty: int


@dataclass(frozen=True, slots=True)
class SlotRow:
    """A worker slot.

    `gen`: its generation, which fences earlier workers. `run_id`: the run that holds it or was launched for it.
    `lease_until`: the worker has died if it does not renew the lease before. `not_before`: no launch before this time.
    `failures`: launches and workers that failed in a row. `error`: the last of these failures.
    `launched_at`: when the worker was launched. `wanted`: the tables that it was launched for, longest wait first.
    """

    id: SlotId
    state: SlotState = SlotState.FREE
    gen: int = 0
    run_id: str | None = None
    lease_until: float = 0.0
    failures: int = 0
    not_before: float = 0.0
    quarantined: bool = False
    error: str | None = None
    launched_at: float = 0.0
    wanted: tuple[str, ...] = ()
    revision: str = field(default="", compare=False)
    extra: str = field(default="", compare=False)
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table. `dirty`: notices so far. `covered`: notices that a merge has covered.

    The table has work while `dirty` > `covered`. A requested replay counts as a notice.
    `noticed_head`, `merged_head`: the head of the last notice, and the head up to which the last merge went.
    `first_dirty_at`, `last_dirty_at`: times of the first uncovered notice and of the last notice.
    `not_before`: no turn before this time. `failures`: turns that failed in a row; `error`: the last failure.
    `yielded_at`: when a turn ended before its plan was empty. `completed_at`: when a plan was last empty.
    `look_error`: why the changelog's head could not be read. `planned`: the backlog at the end of the last slice.
    """

    name: str
    group: str = "default"
    min_interval_seconds: float = 0.0
    dirty: int = 0
    covered: int = 0
    noticed_head: str | None = None
    merged_head: str | None = None
    owner: Owner | None = None
    not_before: float = 0.0
    failures: int = 0
    quarantined: bool = False
    paused: bool = False
    first_dirty_at: float = 0.0
    last_dirty_at: float = 0.0
    yielded_at: float | None = None
    completed_at: float | None = None
    error: ErrorResult | None = None
    look_error: ErrorResult | None = None
    last_run: TurnSummary | None = None
    position: MirrorStatus | None = None
    planned: PlannedBacklog | None = None
    replay: Replay | None = None
    last_replay: ReplayEnd | None = None
    revision: str = field(default="", compare=False)
    extra: str = field(default="", compare=False)
    version: Literal[1] = 1


Row = TableRow | SlotRow


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that a step reads. A row that was never written is absent and counts as new."""

    tables: Mapping[str, TableRow]
    slots: Mapping[SlotId, SlotRow]

    def table(self, name: str) -> TableRow:
        """Return the row of a table, or a new one."""
        return self.tables.get(name) or TableRow(name)

    def slot(self, slot: SlotId) -> SlotRow:
        """Return the row of a slot, or a new one."""
        return self.slots.get(slot) or SlotRow(slot)

    def slots_of_group(self, group: str) -> list[SlotRow]:
        """Return the group's slots that were ever used, by index."""
        return [self.slots[key] for key in sorted(self.slots) if key.group == group]
