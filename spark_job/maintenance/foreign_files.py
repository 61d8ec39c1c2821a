"""Index entries of data files, and which of the files other writers added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from icemirror.tables.cursor import Cursor
from spark_job.iceberg.ancestry import walk_ancestors
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.mirror import CURSOR, Mirror
from spark_job.index.root import IndexedFile, Root
from spark_job.write.live_row_counts import recount_deleted_rows


def indexed_file(file: LiveFile) -> IndexedFile:
    """Return the entry of the root for a live file."""
    return IndexedFile(path=file.path, rows=file.rows, live=file.rows - file.deleted)


def count_live_rows(mirror: Mirror) -> Mirror:
    """Return the mirror with a root that counts the rows of the head, also those of other writers."""
    if mirror.head is None or (mirror.root is not None and not mirror.has_foreign_writes):
        return mirror
    io = mirror.table.io
    live = recount_deleted_rows(io, live_files(io, mirror.head), None)
    files = tuple(map(indexed_file, live.values()))
    root = Root(snapshot_id=mirror.head.snapshot_id, epoch=mirror.epoch, segments=(), files=files)
    next_run = mirror.root.next_run if mirror.root else root.next_run
    return replace(mirror, root=root.model_copy(update={"next_run": next_run}))


def commits_before_foreign_files(metadata: TableMetadata, live: Mapping[str, LiveFile]) -> dict[str, int]:
    """Return, for each file that another writer added, the changelog commit that was merged last at that time.

    Files whose snapshot has expired are left out: it is unknown who added them.
    """
    known: dict[int, int | None] = {}
    for file in live.values():
        if file.added_by is not None and file.added_by not in known:
            known[file.added_by] = _commit_before(metadata, file.added_by)
    numbers = {path: known.get(file.added_by or 0) for path, file in live.items()}
    return {path: number for path, number in numbers.items() if number is not None}


def _commit_before(metadata: TableMetadata, added_by: int) -> int | None:
    line = list(walk_ancestors(metadata.snapshots, added_by))
    if not line or _cursor(line[0]) is not None:
        return None
    try:
        before = next((text for snapshot in line if (text := _cursor(snapshot)) is not None), "")
        sources = Cursor.model_validate_json(before).sources
    except ValueError:
        return None
    return sources[0].sequence_number if sources else None


def _cursor(snapshot: Snapshot) -> str | None:
    return snapshot.summary.additional_properties.get(CURSOR) if snapshot.summary else None
