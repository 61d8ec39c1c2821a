"""From what a job recorded to metrics: the process that launched it reports for it."""

from __future__ import annotations

from icemirror.errors import Kind
from icemirror.result import SliceResult, TableResult
from icemirror.telemetry import names
from icemirror.telemetry.metrics import Metrics

COMMIT_STEP = "commit"


def fold_result(metrics: Metrics, result: TableResult) -> None:
    """Count one turn on one table: how it ended, how long it took, and each of its commits."""
    table = result.table
    metrics.count(names.CYCLE_COMPLETED)
    metrics.observe(names.CYCLE_DURATION, result.seconds)
    metrics.observe(names.TABLE_DURATION, result.seconds, table=table)
    metrics.count(names.TABLE_FAILURE if result.outcome == "failed" else names.TABLE_SUCCESS, table=table)
    if result.outcome == "rebuilt":
        metrics.count(names.COMMITS, table=table, outcome="rebuilt")
    for part in result.slices:
        _fold_slice(metrics, table, part)
    if result.error and result.error.kind in (Kind.CONFLICT, Kind.COMMIT_UNKNOWN):
        metrics.count(names.COMMITS, table=table, outcome=result.error.kind.value)


def _fold_slice(metrics: Metrics, table: str, part: SliceResult) -> None:
    metrics.count(names.COMMITS, table=table, outcome="committed")
    metrics.count(names.ROWS_SCANNED, part.events, table=table)
    metrics.count(names.ROWS_DEDUPLICATED, part.inserted + part.updated + part.deleted, table=table)
    metrics.count(names.ROWS_REJECTED, part.rejected, table=table)
    metrics.count(names.CHANGELOG_FILES, part.changelog_files, table=table)
    metrics.count(names.FILES_CREATED, part.data_files + part.delete_files, table=table)
    metrics.observe(names.SLICE_EVENTS, part.events, table=table)
    metrics.observe(names.MERGE_DURATION, part.seconds, table=table)
    if COMMIT_STEP in part.seconds_by_step:
        metrics.observe(names.COMMIT_DURATION, part.seconds_by_step[COMMIT_STEP], table=table)
    for files, size in ((part.data_files, part.data_bytes), (part.delete_files, part.delete_bytes)):
        for _ in range(files):
            metrics.observe(names.FILE_SIZE, size / files, table=table)


def fold_standing(
    metrics: Metrics,
    table: str,
    *,
    lag_seconds: float | None = None,
    lag_snapshots: int | None = None,
    index_bytes: int | None = None,
) -> None:
    """Where a table stands now; what cannot be known is left as it was."""
    for metric, value in (
        (names.LAG_SECONDS, lag_seconds),
        (names.LAG_SNAPSHOTS, lag_snapshots),
        (names.INDEX_BYTES, index_bytes),
    ):
        if value is not None:
            metrics.gauge(metric, value, table=table)
