"""The two kinds of row that the trigger and its workers share, changed only by compare-and-set.

`revision` is the store's; `extra` is what a later release has put beside the fields that this one knows, and is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from icemirror.result import ErrorResult, Left, Position
from icemirror.state.replay import Replay, ReplayEnd


class SlotState(StrEnum):
    """What the worker of a slot does."""

    FREE = "free"
    LAUNCHING = "launching"
    RUNNING = "running"
    LINGERING = "lingering"


@dataclass(frozen=True, slots=True, order=True)
class SlotId:
    """One of the places for a worker that a group of tables has."""

    group: str
    index: int

    def __str__(self) -> str:
        return f"{self.group}-{self.index}"


@dataclass(frozen=True, slots=True)
class Owner:
    """The worker that has taken a table: a slot and its generation, which no other worker ever gets."""

    slot: SlotId
    gen: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What the last turn of a worker on a table came to."""

    run_id: str
    started_at: float
    ended_at: float
    outcome: Literal["merged", "up-to-date", "rebuilt", "failed"]
    events: int


@dataclass(frozen=True, slots=True)
class Planned:
    """What the last plan of a worker left, and the notices that it came after."""

    left: Left
    dirty: int


@dataclass(frozen=True, slots=True)
class SlotRow:
    """A worker slot. `run_id` is the run that holds it, or the one that was launched for it.

    `launched_at`: when its worker was asked for, and `wanted`: the tables that could be taken then, the one that had
    waited longest first.
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
    """A table. Work waits while `dirty` > `covered`: both count notices, so that none is lost.

    A replay that waits is one of them.
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
    last_run: RunSummary | None = None
    position: Position | None = None
    planned: Planned | None = None
    replay: Replay | None = None
    last_replay: ReplayEnd | None = None
    revision: str = field(default="", compare=False)
    extra: str = field(default="", compare=False)
    version: Literal[1] = 1


Row = TableRow | SlotRow


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that a step reads. A row that was never written is not there, and counts as new."""

    tables: Mapping[str, TableRow]
    slots: Mapping[SlotId, SlotRow]

    def table(self, name: str) -> TableRow:
        """The row of a table."""
        return self.tables.get(name) or TableRow(name)

    def slot(self, slot: SlotId) -> SlotRow:
        """The row of a slot."""
        return self.slots.get(slot) or SlotRow(slot)

    def of_group(self, group: str) -> list[SlotRow]:
        """The slots of a group that were ever used, by index."""
        return [self.slots[key] for key in sorted(self.slots) if key.group == group]
