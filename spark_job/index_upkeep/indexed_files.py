"""The data files of a mirror as its index numbers them."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from spark_job.changelog.change_file import ChangeFile
from spark_job.columns.absent import AbsentIn
from spark_job.iceberg.lineage_columns import require_free_names
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.view import LiveFile, live_files
from spark_job.key_index.root import IndexedFile


def indexed_file(file: LiveFile) -> IndexedFile:
    """One that is there, less the rows that are deleted."""
    return IndexedFile(path=file.path, rows=file.rows, live=file.rows - file.deleted)


def indexed_files(mirror: Mirror, columns: TableMetadata, staged: bool) -> tuple[ChangeFile, ...]:
    """Each with what the columns hold that it may not have; `columns`: the mirror as it will be, with new ones.

    Nothing but a stage wrote its files, which have all columns of their time.
    """
    if mirror.root is None:
        return ()
    live = {} if staged else live_files(mirror.table.io, mirror.head)
    absent_in = AbsentIn(columns.schema(), columns.specs())
    found: list[ChangeFile] = []
    for file in mirror.root.files:
        there = live.get(file.path)
        absent = absent_in.of(there.spec_id, there.partition) if there else absent_in.defaults
        found.append(ChangeFile(file.path, 0, file.rows, 0, 0, tuple(absent.items())))
    return tuple(found)


def first_row_ids(mirror: Mirror, schema: Schema) -> tuple[int | None, ...] | None:
    """The first row id of each indexed data file, from format v3 on."""
    if mirror.table.metadata.format_version < 3:
        return None
    require_free_names(".".join(mirror.table.name()), schema)
    live = live_files(mirror.table.io, mirror.head)
    return tuple(
        live[file.path].first_row_id if file.path in live else None
        for file in (mirror.root.files if mirror.root else ())
    )
