"""`maintain compact`: puts together all that is due, commit by commit."""

from __future__ import annotations

from time import monotonic, sleep

from icemirror.errors import Conflict
from icemirror.result import CompactResult
from icemirror.settings import TableSettings
from spark_job.compaction.compact import find_due
from spark_job.iceberg.failures import named_for
from spark_job.pipeline import Pipeline

_MOST_CONFLICTS = 8
_MOST_PAUSE_SECONDS = 5.0


def compact_all(pipeline: Pipeline, table: TableSettings, *, dry_run: bool) -> CompactResult:
    """What became of the table's small data files; with `dry_run` only what the first commit would take.

    After each attempt it rests for as long as that took, so that a merge is not overtaken for ever.
    """
    commits = before = after = rows = conflicts = 0
    with named_for(table.name):
        while True:
            prepared = pipeline.prepare(table)
            mirror = prepared.mirror
            waits = mirror is not None and (mirror.foreign or mirror.lost)
            if dry_run:
                before = sum(map(len, find_due(mirror, pipeline.left_alone))) if mirror else 0
                break
            began = monotonic()
            try:
                done = pipeline.compact(prepared)
            except Conflict:
                conflicts += 1
                if conflicts == _MOST_CONFLICTS:
                    raise
                _rest(began)
                continue
            if done is None:
                break
            commits, conflicts = commits + 1, 0
            before, after, rows = before + done.files_before, after + done.files_after, rows + done.rows
            _rest(began)
    return CompactResult(
        table=table.name,
        dry_run=dry_run,
        commits=commits,
        files_before=before,
        files_after=after,
        rows=rows,
        left=len(pipeline.left_alone),
        waits=waits,
    )


def _rest(began: float) -> None:
    sleep(min(monotonic() - began, _MOST_PAUSE_SECONDS))
