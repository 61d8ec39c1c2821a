"""What to do next with a table, as data."""

from __future__ import annotations

from dataclasses import dataclass

from icemirror.errors import IcemirrorError
from icemirror.result import Merged
from spark_job.plan.divergence import Cause, Diverged
from spark_job.plan.slices import Slice
from spark_job.plan.table_plan import TablePlan
from spark_job.plan.truncation import follow_truncation


@dataclass(frozen=True)
class Merge:
    """Merge a slice in one commit. `replay_id`: the request that merges it once more."""

    planned: TablePlan
    slice: Slice
    replay_id: str | None = None


@dataclass(frozen=True)
class Repair:
    """Bring the key index in line with the mirror in one commit; merges no event."""

    planned: TablePlan
    slice: Slice


@dataclass(frozen=True)
class Rebuild:
    """Build the mirror from scratch, by policy, because it diverged from its changelog."""

    cause: Cause
    reason: str


@dataclass(frozen=True)
class UpToDate:
    """Merge nothing: the mirror holds everything up to the changelog's head."""

    planned: TablePlan


@dataclass(frozen=True)
class Blocked:
    """Do nothing: the error says what the user has to do. `cause`: how the mirror diverged, if it did."""

    error: IcemirrorError
    cause: Cause | None = None


Plan = Merge | Rebuild | Repair | UpToDate | Blocked


@dataclass(frozen=True)
class Executed:
    """A plan, and what its commit did; None if there was nothing to commit."""

    plan: Plan
    merged: Merged | None = None


def plan_next(found: TablePlan | Diverged) -> Plan:
    """Return the next slice of a table, or what its policy says to do."""
    if isinstance(found, Diverged):
        return Rebuild(found.cause, found.reason) if found.is_rebuilt else Blocked(found.error, found.cause)
    if not found.slices:
        return UpToDate(found)
    followed = follow_truncation(found, found.slices[0])
    return plan_next(followed) if isinstance(followed, Diverged) else Merge(*followed)


def plan_repair(planned: TablePlan) -> Plan:
    """Return a repair of the key index at the mirror's cursor."""
    cursor = planned.mirror.cursor if planned.mirror else None
    return Repair(planned, Slice((), cursor)) if cursor else UpToDate(planned)
