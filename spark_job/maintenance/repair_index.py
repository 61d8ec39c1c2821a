"""Repairs the key index of a mirror before a merge relies on it.

segment missing or damaged          ─► rebuild_segments       from data files and changelog
another writer committed            ─► index_foreign_writes   from the files it added and the rows it deleted
either of them, table without a key ─► live rows are counted again, since such a table has no entries
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from pyiceberg.io import FileIO

from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.shape import ChangelogShape
from spark_job.engine.engine import Engine
from spark_job.iceberg.mirror import Mirror
from spark_job.index.segment import SegmentInfo
from spark_job.maintenance.index_foreign_writes import index_foreign_writes
from spark_job.maintenance.indexed_files import count_live_rows
from spark_job.maintenance.rebuild_segments import SegmentRebuilder
from spark_job.storage.discard import discard_on_error


@dataclass(frozen=True)
class RepairedIndex:
    """A mirror whose index knows every row of the head, and the segments written for that, not yet committed."""

    mirror: Mirror
    segments: tuple[SegmentInfo, ...] = ()

    @property
    def paths(self) -> list[str]:
        """Every file that the repair wrote."""
        return [segment.path for segment in self.segments]


def repair_index(
    engine: Engine,
    mirror: Mirror,
    shape: ChangelogShape,
    location: str,
    damaged: Set[str],
    changelog_io: FileIO,
    merged_files: Callable[[], Sequence[ChangelogFile]],
) -> RepairedIndex:
    """Return the mirror with an index that matches its head; unchanged where nothing is wrong.

    `damaged`: paths of segments that could not be read. `merged_files`: the changelog files up to the cursor, asked
    for only where segments are rebuilt. New segments go to `location`, and are deleted if the repair fails.
    """
    shape = shape.with_mirror_salt(mirror.table.metadata.table_uuid)
    if shape.is_keyless:
        return RepairedIndex(count_live_rows(mirror))
    rebuilder = SegmentRebuilder(engine, changelog_io, merged_files, shape, location)
    mirror, rebuilt = rebuilder.rebuild(mirror, damaged)
    with discard_on_error(mirror.table.io, [segment.path for segment in rebuilt]):
        mirror, indexed = index_foreign_writes(engine, mirror, shape, location)
    return RepairedIndex(mirror, (*rebuilt, *indexed))
