"""How far a mirror is behind its changelog, from metadata alone."""

from __future__ import annotations

from icemirror.errors import IcemirrorError
from icemirror.failure import failure_of
from icemirror.result import Behind, ErrorResult
from icemirror.settings import Settings, TableSettings
from spark_job.pipeline import Pipeline
from spark_job.planning.left import left_after
from spark_job.replays.resync import take_stock
from spark_job.slice_result import position_of
from spark_job.wiring import build_pipeline


class LagMeter:
    """Asks the tables themselves; Spark is never started."""

    def __init__(self, settings: Settings) -> None:
        self._pipeline: Pipeline = build_pipeline(settings, run_id="status")

    def behind(self, table: TableSettings) -> Behind | ErrorResult:
        """The unmerged part of a changelog, or why it cannot be known."""
        try:
            prepared = take_stock(self._pipeline, table)
        except IcemirrorError as error:
            return failure_of(error)
        left = left_after(prepared, None)
        return Behind(**left.model_dump(), position=position_of(prepared.mirror))
