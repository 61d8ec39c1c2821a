"""Repairs the key index of a mirror before a merge relies on it.

segment missing or damaged          ─► rebuild_segments       from data files and changelog
another engine committed            ─► index_foreign_writes   from the files it added and the rows it deleted
either of them, table without a key ─► live rows are counted again: the index has no entries for such a table
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from spark_job.engine.engine import Engine
from spark_job.iceberg.live_files import live_files
from spark_job.iceberg.mirror import Mirror
from spark_job.index.root import Root
from spark_job.index.segment import SegmentInfo
from spark_job.maintenance.index_foreign_writes import index_foreign_writes, to_indexed_file
from spark_job.maintenance.rebuild_segments import SegmentRebuilder
from spark_job.plan.backlog import merged_files
from spark_job.plan.table_plan import TablePlan
from spark_job.storage.discard import discard_on_error
from spark_job.write.read_deletes import recount_deleted_rows


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


def count_live_rows(mirror: Mirror) -> Mirror:
    """Return the mirror with a root that counts the rows of the head, also those of foreign writes."""
    if mirror.head is None or (mirror.root is not None and not mirror.has_foreign_writes):
        return mirror
    io = mirror.table.io
    live = recount_deleted_rows(io, live_files(io, mirror.head), None)
    files = tuple(map(to_indexed_file, live.values()))
    root = Root(snapshot_id=mirror.head.snapshot_id, epoch=mirror.epoch, segments=(), files=files)
    next_sorted_run = mirror.root.next_sorted_run if mirror.root else root.next_sorted_run
    return replace(mirror, root=root.model_copy(update={"next_sorted_run": next_sorted_run}))
