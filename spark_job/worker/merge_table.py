"""Merges one table up to its changelog's head, slice by slice."""

from __future__ import annotations

from collections.abc import Callable

from icemirror.errors import BadConfig, IcemirrorError
from icemirror.result import Merged, NothingToMerge, SliceResult, Staged, StepResult, TableResult
from icemirror.settings import TableSettings
from icemirror.telemetry.error_results import DEBUG_HINT, to_error_result
from icemirror.telemetry.logs import bind, get_log
from spark_job.pipeline import Pipeline
from spark_job.worker.turn import Turn

log = get_log(__name__)


def merge_table(
    pipeline: Pipeline,
    table: TableSettings,
    on_slice: Callable[[SliceResult], None] = lambda _: None,
    report: Callable[[BaseException], None] = lambda _: None,
    on_stage: Callable[[Staged], None] = lambda _: None,
) -> TableResult:
    """Merge a table up to its head. An error ends the merge and becomes part of the result."""
    turn = Turn(table.name, pipeline.run_id, timer=pipeline.timer)
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
        except IcemirrorError as error:
            log.failure("merge failed", error)
            report(error)
            turn.error = to_error_result(error, DEBUG_HINT)
        except Exception as error:  # a defect: this table fails, the others continue
            log.failure("merge failed unexpectedly", error)
            report(error)
            turn.error = to_error_result(error, DEBUG_HINT)
    return turn.result().result
