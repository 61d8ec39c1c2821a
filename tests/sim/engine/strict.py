"""The pipeline, in which a compaction that finds fault with what nobody damaged is not forgiven."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from icemirror.errors import Corrupt, IcemirrorError, Invalid
from icemirror.result import Merged, UpToDate
from icemirror.settings import TableSettings
from spark_job.compaction.compact import Compacted
from spark_job.compaction.left_alone import LeftAlone
from spark_job.iceberg.failures import name_error
from spark_job.iceberg.view import LiveFile
from spark_job.pipeline import Pipeline
from spark_job.planning.stock import Prepared
from tests.sim.engine.reader import Divergence


@dataclass(frozen=True)
class Strict(Pipeline):
    """`damaged` are the files of the index that somebody damaged: that may show in any way."""

    run_id: str = "sim"
    key_check_rows: int | None = None
    damaged: Set[str] = frozenset()
    _faults: list[str] = field(default_factory=list)

    def advance(self, table: TableSettings) -> Merged | UpToDate:
        result = super().advance(table)
        faults = [*self._faults, *(self.left_alone.reasons if isinstance(self.left_alone, Noted) else ())]
        if faults and not self.damaged:
            raise Divergence(f"a compaction found fault: {faults[0]}")
        return result

    def compact(self, prepared: Prepared) -> Compacted | None:
        """Notes what a merge would forgive."""
        try:
            return super().compact(prepared)
        except Exception as error:
            known = error if isinstance(error, IcemirrorError) else name_error(error, "")
            if known is None or isinstance(known, Corrupt | Invalid):
                self._faults.append(repr(error))
            raise


class Noted(LeftAlone):
    """Remembers why."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[str] = []

    def add(self, files: Iterable[LiveFile], reason: str) -> None:
        self.reasons.append(reason)
        super().add(files, reason)
