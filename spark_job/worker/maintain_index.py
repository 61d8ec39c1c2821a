"""`maintain index`: reads every checksum of a key index and repairs it without waiting for an event."""

from __future__ import annotations

from icemirror.errors import NO_MIRROR_YET, Invalid
from icemirror.result import IndexResult
from icemirror.settings import TableSettings
from spark_job.iceberg.mirror import read_mirror
from spark_job.index.root import Root
from spark_job.index.tiers import group_runs
from spark_job.inspect.verify.check_segments import check_segment
from spark_job.pipeline import Pipeline
from spark_job.storage.parallel import map_parallel
from spark_job.storage.translate_errors import translate_table_errors


def maintain_index(pipeline: Pipeline, table: TableSettings, *, dry_run: bool) -> IndexResult:
    """Rebuild damaged segments, index foreign writes and merge due runs, commit by commit."""
    with translate_table_errors(table.name):
        loaded = pipeline.catalogs.load_mirror(table)
        if loaded is None:
            raise Invalid(f"{table.name}: {NO_MIRROR_YET}.")
        mirror = read_mirror(loaded, table.name)
        segments = mirror.root.segments if mirror.root else ()
        io = loaded.io
        answers = map_parallel(lambda segment: check_segment(io, segment), segments, loaded.location())
        damaged = {error.path for error in answers if error is not None}
        commits = 0
        while not dry_run and pipeline.repair_index(table, damaged).merged is not None:
            commits += 1
        after = read_mirror(loaded.refresh(), table.name).root if commits else mirror.root
    return IndexResult(
        table=table.name,
        dry_run=dry_run,
        segments=len(segments),
        damaged=len(damaged),
        lost=mirror.root_unreadable,
        behind=mirror.has_foreign_writes,
        runs_before=_runs(mirror.root),
        runs_after=_runs(after),
        commits=commits,
        waits=mirror.cursor is None
        and (bool(damaged) or mirror.root_unreadable or mirror.has_foreign_writes),
    )


def _runs(root: Root | None) -> int:
    return len(group_runs(root.segments)) if root else 0
