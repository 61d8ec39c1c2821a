"""Merges one table up to its changelog's head, slice by slice."""

from __future__ import annotations

from collections.abc import Callable

from icemirror.errors import BadConfig
from icemirror.result import SliceResult, TableResult
from icemirror.settings import TableSettings
from icemirror.step_results import Merged, NothingToMerge, Staged, StepResult
from icemirror.telemetry.error_results import DEBUG_HINT
from icemirror.telemetry.logs import bind, get_log
from spark_job.pipeline import Pipeline
from spark_job.worker.turn_record import TurnRecord

log = get_log(__name__)


def merge_table(
    pipeline: Pipeline,
    table: TableSettings,
    on_slice: Callable[[SliceResult], None] = lambda _: None,
    report: Callable[[BaseException], None] = lambda _: None,
    on_stage: Callable[[Staged], None] = lambda _: None,
) -> TableResult:
    """Merge a table up to its head; return the result. An error ends the merge and becomes part of the result."""
    turn = TurnRecord(table.name, pipeline.run_id, timer=pipeline.clock_seconds)
    with bind(table=table.name, run=pipeline.run_id):
        try:
            step: StepResult | None = None
            while not isinstance(step, NothingToMerge):
                step = pipeline.advance(table)
                turn.add_step(step)
                match step:
                    case Merged():
                        on_slice(step.slice)
                    case Staged():
                        on_stage(step)
        except BadConfig:
            raise
        except Exception as error:  # this table fails, the others continue
            turn.fail(error, DEBUG_HINT, log, report)
    return turn.table_result()
