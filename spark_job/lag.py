"""How far a mirror is behind its changelog, from metadata alone."""

from __future__ import annotations

from dataclasses import dataclass

from icemirror.errors import IcemirrorError
from icemirror.settings import Settings, TableSettings
from spark_job.pipeline import Pipeline
from spark_job.wiring import build_pipeline


@dataclass(frozen=True, slots=True)
class Behind:
    """What a merge would take now."""

    snapshots: int
    events: int


class LagMeter:
    """Asks the tables themselves; Spark is never started."""

    def __init__(self, settings: Settings) -> None:
        self._pipeline: Pipeline = build_pipeline(settings, run_id="status")

    def behind(self, table: TableSettings) -> Behind | None:
        """The unmerged part of a changelog, or None where it cannot be known."""
        try:
            prepared = self._pipeline.prepare(table)
        except IcemirrorError:
            return None
        return Behind(prepared.snapshots, sum(part.events for part in prepared.slices))
