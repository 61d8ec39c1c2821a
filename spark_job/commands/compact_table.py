"""`maintain compact`: compacts everything that is due, commit by commit."""

from __future__ import annotations

from time import monotonic, sleep

from icemirror.errors import Conflict
from icemirror.result import CompactResult
from icemirror.settings import TableSettings
from spark_job.maintenance.compact import count_skipped_files, find_files_to_compact
from spark_job.pipeline import Pipeline
from spark_job.storage.translate_errors import translate_table_errors

_MAX_CONFLICTS = 8
_MAX_PAUSE_SECONDS = 5.0


def compact_table(pipeline: Pipeline, table_settings: TableSettings, *, dry_run: bool) -> CompactResult:
    """Compact the small data files of a table, and return the counts; with `dry_run` only those of the first commit.

    After each attempt it pauses for as long as the attempt took, so that merges get their turn.
    """
    commits = files_before = files_after = rows = conflicts = 0
    with translate_table_errors(table_settings.name):
        while True:
            table_plan = pipeline.planner.require_plan(table_settings)
            mirror = table_plan.mirror
            needs_repair = mirror is not None and (mirror.has_foreign_writes or mirror.root_unreadable)
            if dry_run:
                files_before = (
                    sum(map(len, find_files_to_compact(mirror, pipeline.skipped_files))) if mirror else 0
                )
                break
            began = monotonic()
            try:
                compacted = pipeline.compact(table_plan)
            except Conflict:
                conflicts += 1
                if conflicts == _MAX_CONFLICTS:
                    raise
                _pause(began)
                continue
            if compacted is None:
                break
            commits, conflicts = commits + 1, 0
            files_before, files_after, rows = (
                files_before + compacted.files_before,
                files_after + compacted.files_after,
                rows + compacted.rows,
            )
            _pause(began)
    return CompactResult(
        table=table_settings.name,
        dry_run=dry_run,
        commits=commits,
        files_before=files_before,
        files_after=files_after,
        rows=rows,
        left=count_skipped_files(mirror, pipeline.skipped_files) if mirror else 0,
        waits=needs_repair,
    )


def _pause(began: float) -> None:
    sleep(min(monotonic() - began, _MAX_PAUSE_SECONDS))
