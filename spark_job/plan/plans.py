"""What to do next with a table, as data."""

from __future__ import annotations

from dataclasses import dataclass

from icemirror.errors import IcemirrorError
from icemirror.step_results import Merged
from spark_job.plan.apply_truncation import apply_truncation
from spark_job.plan.attempt_findings import NO_FINDINGS, AttemptFindings
from spark_job.plan.divergence import Diverged, DivergenceCause
from spark_job.plan.slices import Slice
from spark_job.plan.table_plan import TablePlan


@dataclass(frozen=True)
class Merge:
    """Merge a slice in one commit. `replay_id`: the replay request, if any."""

    table_plan: TablePlan
    slice: Slice
    replay_id: str | None = None


@dataclass(frozen=True)
class Repair:
    """Bring the key index in line with the mirror in one commit; merges no event."""

    table_plan: TablePlan
    slice: Slice


@dataclass(frozen=True)
class Rebuild:
    """Build the mirror from scratch, by policy, because it diverged from its changelog."""

    cause: DivergenceCause
    reason: str


@dataclass(frozen=True)
class UpToDate:
    """Merge nothing: the mirror contains everything up to the changelog's head."""

    table_plan: TablePlan


@dataclass(frozen=True)
class Blocked:
    """Do nothing: the error states the required action. `cause`: how the mirror diverged, if it did."""

    error: IcemirrorError
    cause: DivergenceCause | None = None


Plan = Merge | Rebuild | Repair | UpToDate | Blocked


@dataclass(frozen=True)
class PlanOutcome:
    """A plan, and what its commit did; None if there was nothing to commit."""

    plan: Plan
    merged: Merged | None = None


def plan_next(table_plan: TablePlan | Diverged, findings: AttemptFindings = NO_FINDINGS) -> Plan:
    """Return the merge of a table's next slice, or what its policy requires. `findings`: of earlier attempts."""
    if isinstance(table_plan, Diverged):
        return plan_diverged(table_plan)
    if not table_plan.slices:
        return UpToDate(table_plan)
    slice_ = table_plan.slices[0]
    merge = apply_truncation(table_plan, slice_, findings.find_truncation_in(slice_.files))
    return plan_diverged(merge) if isinstance(merge, Diverged) else Merge(*merge)


def plan_diverged(diverged: Diverged) -> Rebuild | Blocked:
    """Return what the policy of a table requires if its mirror diverged."""
    if diverged.rebuild_allowed:
        return Rebuild(diverged.cause, diverged.message)
    return Blocked(diverged.error, diverged.cause)


def plan_repair(table_plan: TablePlan) -> Plan:
    """Return a repair of the key index at the mirror's cursor."""
    cursor = table_plan.mirror.cursor if table_plan.mirror else None
    return Repair(table_plan, Slice((), cursor)) if cursor else UpToDate(table_plan)
