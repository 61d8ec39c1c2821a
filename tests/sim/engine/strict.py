"""The pipeline, in which a compaction that finds fault with what nobody damaged is not forgiven."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from icemirror.errors import Corrupt, Invalid
from spark_job.compaction.compact import Compacted
from spark_job.pipeline import Pipeline
from spark_job.stock import Prepared
from tests.sim.engine.reader import Divergence


@dataclass(frozen=True)
class Strict(Pipeline):
    """`damaged` are the files of the index that somebody damaged."""

    run_id: str = "sim"
    key_check_rows: int | None = None
    damaged: Set[str] = frozenset()

    def compact(self, prepared: Prepared) -> Compacted | None:
        """What is damaged may show in any way."""
        try:
            return super().compact(prepared)
        except (Corrupt, Invalid) as error:
            if self.damaged:
                raise
            raise Divergence(f"a compaction found fault: {error}") from error
