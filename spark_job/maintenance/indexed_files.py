"""The data files of a mirror: as its index numbers them, and those that other writers added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from icemirror.tables.cursor import Cursor
from spark_job.changelog.history import ChangelogFile
from spark_job.columns.missing_columns import MissingColumns
from spark_job.iceberg.ancestry import walk_ancestors
from spark_job.iceberg.lineage_columns import refuse_reserved_names
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.mirror import CURSOR, Mirror
from spark_job.index.root import IndexedFile, Root
from spark_job.write.live_row_counts import recount_deleted_rows


def indexed_file(file: LiveFile) -> IndexedFile:
    """Return the entry of the root for a live file."""
    return IndexedFile(path=file.path, rows=file.rows, live=file.rows - file.deleted)


def indexed_files(mirror: Mirror, columns: TableMetadata, staged: bool) -> tuple[ChangelogFile, ...]:
    """Return the files of the index, each with default values for columns that it may lack.

    `columns`: metadata of the mirror with the columns that it is about to get. Files of a stage (`staged`) were all
    written by merges, with every column of that time.
    """
    if mirror.root is None:
        return ()
    live = {} if staged else live_files(mirror.table.io, mirror.head)
    absent_in = MissingColumns(columns.schema(), columns.specs())
    found: list[ChangelogFile] = []
    for file in mirror.root.files:
        listed = live.get(file.path)
        absent = absent_in.of(listed.spec_id, listed.partition) if listed else absent_in.defaults
        found.append(ChangelogFile(file.path, 0, file.rows, 0, 0, tuple(absent.items())))
    return tuple(found)


def first_row_ids(mirror: Mirror, schema: Schema) -> tuple[int | None, ...] | None:
    """Return the first row id of each indexed data file; None before format v3."""
    if mirror.table.metadata.format_version < 3:
        return None
    refuse_reserved_names(".".join(mirror.table.name()), schema)
    live = live_files(mirror.table.io, mirror.head)
    return tuple(
        live[file.path].first_row_id if file.path in live else None
        for file in (mirror.root.files if mirror.root else ())
    )


def count_live_rows(mirror: Mirror) -> Mirror:
    """Return the mirror with a root that counts the rows of the head, also those of other writers."""
    if mirror.head is None or (mirror.root is not None and not mirror.foreign):
        return mirror
    io = mirror.table.io
    live = recount_deleted_rows(io, live_files(io, mirror.head), None)
    files = tuple(map(indexed_file, live.values()))
    root = Root(snapshot_id=mirror.head.snapshot_id, epoch=mirror.epoch, segments=(), files=files)
    next_run = mirror.root.next_run if mirror.root else root.next_run
    return replace(mirror, root=root.model_copy(update={"next_run": next_run}))


def foreign_file_cursors(metadata: TableMetadata, live: Mapping[str, LiveFile]) -> dict[str, int]:
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
        before = next((text for one in line if (text := _cursor(one)) is not None), "")
        sources = Cursor.model_validate_json(before).sources
    except ValueError:
        return None
    return sources[0].sequence_number if sources else None


def _cursor(snapshot: Snapshot) -> str | None:
    return snapshot.summary.additional_properties.get(CURSOR) if snapshot.summary else None
