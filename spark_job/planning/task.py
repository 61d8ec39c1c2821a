"""What one commit shall do, and what it did."""

from __future__ import annotations

from dataclasses import dataclass

from icemirror.result import Merged
from spark_job.planning.plan import Slice
from spark_job.planning.stock import Prepared


@dataclass(frozen=True)
class Task:
    """What one commit shall do; nothing if there is no part. `replay_id`: the request that has it merged once more."""

    prepared: Prepared
    part: Slice | None
    replay_id: str | None = None


@dataclass(frozen=True)
class Done:
    """A task, and what it committed, if anything."""

    task: Task
    merged: Merged | None = None


def next_task(prepared: Prepared) -> Task:
    """The first of the slices that wait."""
    return Task(prepared, prepared.slices[0] if prepared.slices else None)
