"""A replay in a table's row: the request, its progress, and how the last one ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from icemirror.result import ErrorResult, SliceResult
from icemirror.step_results import Backlog, MirrorStatus


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """Progress of a replay. `mark`: the token with which the job resumes; opaque to everything else."""

    events: int = 0
    of_events: int = 0
    changed_rows: int = 0
    mark: str | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """A pending or running replay: from a snapshot or a time on, or of the whole changelog (`full`).

    Both ends are inclusive. `id` distinguishes it from an earlier request that a worker may still report on.
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
    """How a replay ended."""

    id: str
    ended_at: float
    outcome: Literal["done", "failed", "cancelled"]
    progress: ReplayProgress | None = None
    error: ErrorResult | None = None


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """Result of one step of a requested replay or rebuild.

    `slice`: set if the step committed events of a range to the mirror; `mirror_status`: set if it committed anything.
    `backlog`: what remains of a rebuild.
    """

    progress: ReplayProgress
    done: bool
    slice: SliceResult | None = None
    mirror_status: MirrorStatus | None = None
    rebuilt: bool = False
    backlog: Backlog | None = None
