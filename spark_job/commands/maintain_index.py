"""`maintain index`: reads every checksum of a key index and repairs it without waiting for an event."""

from __future__ import annotations

from collections.abc import Set

from icemirror.errors import NO_MIRROR_YET, Invalid
from icemirror.result import IndexResult
from icemirror.settings import TableSettings
from spark_job.commands.check_segments import check_contents
from spark_job.iceberg.mirror import read_mirror
from spark_job.index.root import Root
from spark_job.index.tiers import group_sorted_runs
from spark_job.pipeline import Pipeline
from spark_job.storage.parallel import map_parallel
from spark_job.storage.translate_errors import translate_table_errors


def maintain_index(pipeline: Pipeline, table_settings: TableSettings, *, dry_run: bool) -> IndexResult:
    """Rebuild damaged segments, index foreign writes and merge due runs, commit by commit; return what was done."""
    with translate_table_errors(table_settings.name):
        mirror_table = pipeline.catalogs.load_mirror(table_settings)
        if mirror_table is None:
            raise Invalid(f"{table_settings.name}: {NO_MIRROR_YET}.")
        mirror = read_mirror(mirror_table, table_settings.name)
        segments = mirror.root.segments if mirror.root else ()
        io = mirror_table.io
        errors = map_parallel(lambda segment: check_contents(io, segment), segments, mirror_table.location())
        damaged = {error.path for error in errors if error is not None}
        commits = 0 if dry_run else repair_until_intact(pipeline, table_settings, damaged)
        new_root = read_mirror(mirror_table.refresh(), table_settings.name).root if commits else mirror.root
    return IndexResult(
        table=table_settings.name,
        dry_run=dry_run,
        segments=len(segments),
        damaged=len(damaged),
        lost=mirror.root_unreadable,
        behind=mirror.has_foreign_writes,
        runs_before=_count_runs(mirror.root),
        runs_after=_count_runs(new_root),
        commits=commits,
        waits=mirror.cursor is None
        and (bool(damaged) or mirror.root_unreadable or mirror.has_foreign_writes),
    )


def repair_until_intact(pipeline: Pipeline, table_settings: TableSettings, damaged: Set[str]) -> int:
    """Repair the index until nothing is left to commit; return the number of commits.

    A commit repairs all damage, but does only one step of the index merge.
    """
    commits = 0
    while pipeline.execute_repair(table_settings, damaged).merged is not None:
        commits += 1
    return commits


def _count_runs(root: Root | None) -> int:
    return len(group_sorted_runs(root.segments)) if root else 0
