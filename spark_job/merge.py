"""Merges one table up to its changelog's head, slice by slice."""

from __future__ import annotations

from collections.abc import Callable

from icemirror.errors import BadConfig, IcemirrorError
from icemirror.failure import failure_of
from icemirror.result import (
    ErrorResult,
    Merged,
    Position,
    Rebuilt,
    SliceResult,
    Staged,
    TableResult,
    UpToDate,
)
from icemirror.settings import TableSettings
from icemirror.telemetry.logs import bind, get_log
from spark_job.pipeline import Pipeline
from spark_job.replays.resync import advance

_MORE = "ICEMIRROR_DEBUG=1 shows more"

log = get_log(__name__)


def merge_table(
    pipeline: Pipeline,
    table: TableSettings,
    on_slice: Callable[[SliceResult], None] = lambda _: None,
    report: Callable[[BaseException], None] = lambda _: None,
    on_stage: Callable[[Staged], None] = lambda _: None,
) -> TableResult:
    """The result of merging a table; a named error ends it and becomes part of the result."""
    began = pipeline.clock()
    slices: list[SliceResult] = []
    position: Position | None = None
    failure: ErrorResult | None = None
    rebuilt = False
    with bind(table=table.name, run=pipeline.run_id):
        try:
            while not isinstance(step := advance(pipeline, table), UpToDate):
                match step:
                    case Merged():
                        slices.append(step.slice)
                        on_slice(step.slice)
                    case Staged():
                        on_stage(step)
                    case Rebuilt():
                        rebuilt = True
            position = step.position
        except BadConfig:
            raise
        except IcemirrorError as error:
            log.failure("merge failed", error)
            report(error)
            failure = failure_of(error, _MORE)
        except Exception as error:  # a defect of ours, or of a library: this table fails, the others go on
            log.failure("merge failed unexpectedly", error)
            report(error)
            failure = failure_of(error, _MORE)
    return TableResult(
        table=table.name,
        outcome="failed" if failure else "rebuilt" if rebuilt else "merged" if slices else "up-to-date",
        live_rows=position.live_rows if position else None,
        cursor=position.cursor if position else None,
        slices=tuple(slices),
        seconds=round(pipeline.clock() - began, 4),
        error=failure,
    )
