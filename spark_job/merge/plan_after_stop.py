"""Decides how to go on when the shards of a slice stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from icemirror.telemetry.logs import get_log
from spark_job.changelog.truncations import cached_truncation, describe_truncation, find_truncation
from spark_job.merge.shard_result import HistoryNeeded, Stopped, TruncationFound
from spark_job.plan.attempt_findings import AttemptFindings
from spark_job.plan.divergence import Diverged, DivergenceCause
from spark_job.plan.plans import Executed, plan_next
from spark_job.plan.slices import Slice
from spark_job.plan.table_plan import TablePlan

log = get_log(__name__)


def plan_after_stop(
    table_plan: TablePlan, slice_: Slice, findings: AttemptFindings, stopped: Stopped
) -> Executed | AttemptFindings:
    """Return findings for the next attempt, or another plan if the source was truncated."""
    match stopped:
        case HistoryNeeded(reason=reason):
            log.info("changelog history needed, planning again", reason=reason)
            return replace(findings, needs_history=True)
        case TruncationFound(file=file, row=row):
            shape = table_plan.shape
            if findings.scanned_for_truncation or cached_truncation(slice_.files, shape):
                message = describe_truncation(shape, slice_.files[file].path, row)
                return Executed(
                    plan_next(Diverged(table_plan.settings, DivergenceCause.SOURCE_TRUNCATED, message))
                )
            # The scan is cached, so the next plan finds the truncation before it reads the slice.
            find_truncation(table_plan.changelog.io, slice_.files, shape)
            return replace(findings, scanned_for_truncation=True)
    assert_never(stopped)
