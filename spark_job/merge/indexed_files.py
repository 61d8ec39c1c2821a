"""The data files of a mirror in the order of its index: which values and row ids their rows have by default."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from spark_job.changelog.history import ChangelogFile
from spark_job.columns.missing_columns import MissingColumns
from spark_job.iceberg.lineage_columns import refuse_reserved_names
from spark_job.iceberg.live_files import live_files
from spark_job.iceberg.mirror import Mirror


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
        absent = absent_in.values_in_file(listed.spec_id, listed.partition) if listed else absent_in.defaults
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
