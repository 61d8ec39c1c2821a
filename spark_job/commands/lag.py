"""Measures how far a mirror is behind its changelog, from metadata alone."""

from __future__ import annotations

from icemirror.errors import IcemirrorError
from icemirror.result import ErrorResult
from icemirror.settings import Settings, TableSettings
from icemirror.step_results import MeasuredBacklog
from icemirror.telemetry.error_results import to_error_result
from spark_job.commit.slice_result import mirror_status
from spark_job.pipeline import Pipeline
from spark_job.plan.backlog import backlog_after
from spark_job.rebuild.resync import plan_with_resync
from spark_job.worker.wiring import build_pipeline


class LagMeter:
    """Measures lag from table metadata; never starts Spark."""

    def __init__(self, settings: Settings) -> None:
        self._pipeline: Pipeline = build_pipeline(settings, run_id="status")

    def measure_backlog(self, table: TableSettings) -> MeasuredBacklog | ErrorResult:
        """Return what waits in a changelog, or why that is unknown."""
        try:
            table_plan = plan_with_resync(self._pipeline.planner, table, scan_truncations=False)
        except IcemirrorError as error:
            return to_error_result(error)
        backlog = backlog_after(table_plan, 0)
        return MeasuredBacklog(**backlog.model_dump(), mirror_status=mirror_status(table_plan.mirror))
