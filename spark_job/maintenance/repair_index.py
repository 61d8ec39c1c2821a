"""Repairs the key index of a mirror before a merge relies on it.

segment missing or damaged          ─► rebuild_segments       from data files and changelog
another writer committed            ─► index_foreign_writes   from the files it added and the rows it deleted
either of them, table without a key ─► live rows are counted again, since such a table has no entries
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from spark_job.engine.engine import Engine
from spark_job.iceberg.mirror import Mirror
from spark_job.index.segment import SegmentInfo
from spark_job.maintenance.foreign_files import count_live_rows
from spark_job.maintenance.index_foreign_writes import index_foreign_writes
from spark_job.maintenance.rebuild_segments import SegmentRebuilder
from spark_job.plan.table_plan import TablePlan, merged_files
from spark_job.storage.discard import discard_on_error


@dataclass(frozen=True)
class RepairedIndex:
    """A mirror whose index matches its head, and the segments written for that, not committed yet."""

    mirror: Mirror
    segments: tuple[SegmentInfo, ...] = ()

    @property
    def paths(self) -> list[str]:
        """Every file that the repair wrote."""
        return [segment.path for segment in self.segments]


def repair_index(
    engine: Engine, mirror: Mirror, table_plan: TablePlan, location: str, damaged: Set[str]
) -> RepairedIndex:
    """Return the mirror with an index that matches its head; unchanged if the index is intact.

    `damaged`: paths of segments that could not be read. New segments go to `location`, and are deleted if the repair
    fails. The changelog's history is read only if segments are rebuilt.
    """
    shape = table_plan.shape.with_mirror_salt(mirror.table.metadata.table_uuid)
    if shape.is_keyless:
        return RepairedIndex(count_live_rows(mirror))
    rebuilder = SegmentRebuilder(
        engine, table_plan.changelog.io, lambda: merged_files(table_plan), shape, location
    )
    mirror, rebuilt = rebuilder.rebuild(mirror, damaged)
    with discard_on_error(mirror.table.io, [segment.path for segment in rebuilt]):
        mirror, indexed = index_foreign_writes(engine, mirror, shape, location)
    return RepairedIndex(mirror, (*rebuilt, *indexed))
