"""Metrics from recorded results. The trigger reports them, because jobs end before they are scraped."""

from __future__ import annotations

from icemirror.errors import Kind
from icemirror.result import SliceResult, TableResult
from icemirror.telemetry import metric_names
from icemirror.telemetry.metrics import Metrics

COMMIT_STEP = "commit"


def count_result(metrics: Metrics, result: TableResult) -> None:
    """Count one turn on a table: its outcome, its duration, and each of its commits."""
    table = result.table
    metrics.count(metric_names.CYCLE_COMPLETED)
    metrics.observe(metric_names.CYCLE_DURATION, result.seconds)
    metrics.observe(metric_names.TABLE_DURATION, result.seconds, table=table)
    metrics.count(
        metric_names.TABLE_FAILURE if result.outcome == "failed" else metric_names.TABLE_SUCCESS, table=table
    )
    if result.outcome == "rebuilt":
        metrics.count(metric_names.COMMITS, table=table, outcome="rebuilt")
    for slice_ in result.slices:
        _count_slice(metrics, table, slice_)
    if result.error and result.error.kind in (Kind.CONFLICT, Kind.COMMIT_UNKNOWN):
        metrics.count(metric_names.COMMITS, table=table, outcome=result.error.kind.value)


def _count_slice(metrics: Metrics, table: str, result: SliceResult) -> None:
    metrics.count(metric_names.COMMITS, table=table, outcome="committed")
    metrics.count(metric_names.ROWS_SCANNED, result.events, table=table)
    metrics.count(
        metric_names.ROWS_DEDUPLICATED, result.inserted + result.updated + result.deleted, table=table
    )
    metrics.count(metric_names.ROWS_REJECTED, result.rejected, table=table)
    metrics.count(metric_names.CHANGELOG_FILES, result.changelog_files, table=table)
    metrics.count(metric_names.FILES_CREATED, result.data_files + result.delete_files, table=table)
    metrics.observe(metric_names.SLICE_EVENTS, result.events, table=table)
    metrics.observe(metric_names.MERGE_DURATION, result.seconds, table=table)
    if COMMIT_STEP in result.seconds_by_step:
        metrics.observe(metric_names.COMMIT_DURATION, result.seconds_by_step[COMMIT_STEP], table=table)
    for files, size in ((result.data_files, result.data_bytes), (result.delete_files, result.delete_bytes)):
        for _ in range(files):
            metrics.observe(metric_names.FILE_SIZE, size / files, table=table)


def set_table_gauges(
    metrics: Metrics,
    table: str,
    *,
    lag_seconds: float | None = None,
    lag_snapshots: int | None = None,
    index_bytes: int | None = None,
) -> None:
    """Set the gauges of a table; None leaves a gauge as it is."""
    for metric, value in (
        (metric_names.LAG_SECONDS, lag_seconds),
        (metric_names.LAG_SNAPSHOTS, lag_snapshots),
        (metric_names.INDEX_BYTES, index_bytes),
    ):
        if value is not None:
            metrics.gauge(metric, value, table=table)
