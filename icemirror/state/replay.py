"""A replay as it stands in a table's row: what was asked for, how far it is, and how the last one ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from icemirror.result import ErrorResult, Left, Position, SliceResult


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """How far a replay is. `mark` is where the job goes on, in words of its own; nobody else reads it."""

    events: int = 0
    of_events: int = 0
    changed_rows: int = 0
    mark: str | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """A request that waits or is under way: a snapshot or a time to begin at, or (`full`) all of the changelog.

    Both ends are included. `id` tells a request from the one before, of which a worker may still report.
    """

    id: str
    requested_at: float
    full: bool = False
    from_snapshot: int | None = None
    since_ms: int | None = None
    to_snapshot: int | None = None
    progress: ReplayProgress | None = None
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class ReplayEnd:
    """How a request ended."""

    id: str
    ended_at: float
    outcome: Literal["done", "failed", "cancelled"]
    progress: ReplayProgress | None = None
    error: ErrorResult | None = None


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """What one step of a replay came to; the slice and the position, if it committed something on the mirror.

    `left`: what a rebuild has not merged yet.
    """

    progress: ReplayProgress
    done: bool
    slice: SliceResult | None = None
    position: Position | None = None
    rebuilt: bool = False
    left: Left | None = None
