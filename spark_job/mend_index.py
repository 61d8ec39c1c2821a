"""`maintain index`: reads every checksum of a key index, and has it mended without waiting for an event."""

from __future__ import annotations

from icemirror.errors import NO_MIRROR_YET, Invalid
from icemirror.result import IndexResult
from icemirror.settings import TableSettings
from spark_job.files.round_trips import for_each
from spark_job.iceberg.failures import named_for
from spark_job.iceberg.mirror import read_mirror
from spark_job.key_index.root import Root
from spark_job.key_index.tiers import runs_of
from spark_job.pipeline import Pipeline
from spark_job.verify.segments import check_segment


def mend_index(pipeline: Pipeline, table: TableSettings, *, dry_run: bool) -> IndexResult:
    """Rebuilds what is damaged or lost, takes in what others wrote, and merges runs that are due, commit by commit."""
    with named_for(table.name):
        loaded = pipeline.catalogs.load_mirror(table)
        if loaded is None:
            raise Invalid(f"{table.name}: {NO_MIRROR_YET}.")
        mirror = read_mirror(loaded, table.name)
        segments = mirror.root.segments if mirror.root else ()
        io = loaded.io
        answers = for_each(lambda one: check_segment(io, one), segments, loaded.location())
        damaged = {error.path for error in answers if error is not None}
        commits = 0
        while not dry_run and pipeline.mend_index(table, damaged).merged is not None:
            commits += 1
        after = read_mirror(loaded.refresh(), table.name).root if commits else mirror.root
    return IndexResult(
        table=table.name,
        dry_run=dry_run,
        segments=len(segments),
        damaged=len(damaged),
        lost=mirror.lost,
        behind=mirror.foreign,
        runs_before=_runs(mirror.root),
        runs_after=_runs(after),
        commits=commits,
        waits=mirror.cursor is None and (bool(damaged) or mirror.lost or mirror.foreign),
    )


def _runs(root: Root | None) -> int:
    return len(runs_of(root.segments)) if root else 0
