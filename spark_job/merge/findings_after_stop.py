"""Finds out what the next attempt needs to know after the shards of a slice stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from icemirror.telemetry.logs import get_log
from spark_job.changelog.truncations import describe_truncation, find_truncation
from spark_job.merge.shard_result import HistoryNeeded, StopReason, TruncationFound
from spark_job.plan.attempt_findings import AttemptFindings
from spark_job.plan.divergence import Diverged, DivergenceCause
from spark_job.plan.slices import Slice
from spark_job.plan.table_plan import TablePlan

log = get_log(__name__)


def findings_after_stop(
    table_plan: TablePlan, slice_: Slice, findings: AttemptFindings, stop_reason: StopReason
) -> AttemptFindings | Diverged:
    """Return findings for the next attempt, or how the mirror diverged if a truncation cannot be applied."""
    match stop_reason:
        case HistoryNeeded(reason=reason):
            log.info("changelog history needed, planning again", reason=reason)
            return replace(findings, needs_history=True)
        case TruncationFound(file=file, row=row):
            shape = table_plan.shape
            if findings.scanned_for_truncation or findings.find_truncation_in(slice_.files):
                details = describe_truncation(shape, slice_.files[file].path, row)
                return Diverged(table_plan.table_settings, DivergenceCause.SOURCE_TRUNCATED, details)
            # The shard stopped at the first truncation that it read; the next plan needs the last one.
            last = find_truncation(table_plan.changelog.io, slice_.files, shape)
            return replace(findings, scanned_for_truncation=True, truncation=last)
    assert_never(stop_reason)
