"""A pipeline that raises every compaction failure, unless files were damaged on purpose."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from icemirror.errors import Corrupt, IcemirrorError, Invalid
from icemirror.settings import TableSettings
from icemirror.step_results import StepResult
from spark_job.iceberg.live_files import LiveFile
from spark_job.maintenance.compact import Compaction, SkippedFiles
from spark_job.pipeline import Pipeline
from spark_job.plan.table_plan import TablePlan
from spark_job.storage.translate_errors import translate_error
from tests.sim.engine.reader import Divergence


@dataclass(frozen=True)
class StrictPipeline(Pipeline):
    """Raises failed compactions. `damaged`: damaged index files, which may cause any failure."""

    run_id: str = "sim"
    key_check_rows: int | None = None
    damaged: Set[str] = frozenset()
    _faults: list[str] = field(default_factory=list)

    def advance(self, table: TableSettings) -> StepResult:
        result = super().advance(table)
        faults = [
            *self._faults,
            *(self.skipped_files.reasons if isinstance(self.skipped_files, RecordedSkips) else ()),
        ]
        if faults and not self.damaged:
            raise Divergence(f"a compaction failed: {faults[0]}")
        return result

    def compact(self, prepared: TablePlan) -> Compaction | None:
        """Record failures that a merge would only log."""
        try:
            return super().compact(prepared)
        except Exception as error:
            known = error if isinstance(error, IcemirrorError) else translate_error(error, "")
            if known is None or isinstance(known, Corrupt | Invalid):
                self._faults.append(repr(error))
            raise


class RecordedSkips(SkippedFiles):
    """Skipped files with the reasons."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[str] = []

    def add(self, files: Iterable[LiveFile], reason: str) -> None:
        self.reasons.append(reason)
        super().add(files, reason)
