"""How far a mirror is behind its changelog, from metadata alone."""

from __future__ import annotations

from icemirror.errors import IcemirrorError
from icemirror.result import Behind, ErrorResult
from icemirror.settings import Settings, TableSettings
from icemirror.telemetry.redaction import redact
from spark_job.pipeline import Pipeline
from spark_job.slice_result import position_of
from spark_job.stock import Prepared
from spark_job.wiring import build_pipeline


class LagMeter:
    """Asks the tables themselves; Spark is never started."""

    def __init__(self, settings: Settings) -> None:
        self._pipeline: Pipeline = build_pipeline(settings, run_id="status")

    def behind(self, table: TableSettings) -> Behind | ErrorResult:
        """The unmerged part of a changelog, or why it cannot be known."""
        try:
            prepared = self._pipeline.prepare(table)
        except IcemirrorError as error:
            return ErrorResult(kind=error.kind, message=redact(str(error)))
        return Behind(
            snapshots=prepared.snapshots,
            events=sum(part.events for part in prepared.slices),
            since=_since(prepared),
            position=position_of(prepared.mirror),
        )


def _since(prepared: Prepared) -> float | None:
    """When the oldest commit was made that is not merged; where it has expired, the oldest that is left."""
    made_at = {one.snapshot_id: one.timestamp_ms / 1000 for one in prepared.changelog.metadata.snapshots}
    for part in prepared.slices:
        for snapshot_id in (*(file.snapshot_id for file in part.files), part.cursor.source.snapshot_id):
            if snapshot_id in made_at:
                return made_at[snapshot_id]
    return None
