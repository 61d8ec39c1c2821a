"""Merges one table up to its changelog's head, slice by slice."""

from __future__ import annotations

from collections.abc import Callable

from icemirror.errors import BadConfig, IcemirrorError
from icemirror.failure import MORE, failure_of
from icemirror.result import Advance, Merged, SliceResult, Staged, TableResult, UpToDate
from icemirror.settings import TableSettings
from icemirror.telemetry.logs import bind, get_log
from spark_job.pipeline import Pipeline
from spark_job.replays.resync import advance
from spark_job.worker.turn import Turn

log = get_log(__name__)


def merge_table(
    pipeline: Pipeline,
    table: TableSettings,
    on_slice: Callable[[SliceResult], None] = lambda _: None,
    report: Callable[[BaseException], None] = lambda _: None,
    on_stage: Callable[[Staged], None] = lambda _: None,
) -> TableResult:
    """The result of merging a table; a named error ends it and becomes part of the result."""
    turn = Turn(table.name, pipeline.run_id, timer=pipeline.clock)
    with bind(table=table.name, run=pipeline.run_id):
        try:
            step: Advance | None = None
            while not isinstance(step, UpToDate):
                step = advance(pipeline, table)
                turn.note(step)
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
            turn.error = failure_of(error, MORE)
        except Exception as error:  # a defect of ours, or of a library: this table fails, the others go on
            log.failure("merge failed unexpectedly", error)
            report(error)
            turn.error = failure_of(error, MORE)
    return turn.result().result
