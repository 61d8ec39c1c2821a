"""The data files of a mirror in the order of its index, with default values and row ids of their rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from spark_job.columns.missing_columns import MissingColumns, MissingValues
from spark_job.iceberg.lineage_columns import refuse_reserved_names
from spark_job.iceberg.live_files import live_files
from spark_job.iceberg.mirror import Mirror


@dataclass(frozen=True, slots=True)
class MirrorRowFile:
    """A data file of the mirror. `missing_values`: by field id, the values of columns that it may lack."""

    path: str
    row_count: int
    missing_values: MissingValues = field(default_factory=dict)


def find_indexed_files(mirror: Mirror, metadata: TableMetadata, is_stage: bool) -> tuple[MirrorRowFile, ...]:
    """Return the files of the index, each with default values for columns that it may lack.

    `metadata`: that of the mirror, with the columns that it is about to get. Files of a stage (`is_stage`) were all
    written by merges, with every column of that time.
    """
    if mirror.root is None:
        return ()
    live = {} if is_stage else live_files(mirror.table.io, mirror.head)
    missing_columns = MissingColumns(metadata.schema(), metadata.specs())
    files: list[MirrorRowFile] = []
    for file in mirror.root.files:
        live_file = live.get(file.path)
        missing_values = (
            missing_columns.values_in_file(live_file.spec_id, live_file.partition)
            if live_file
            else missing_columns.defaults
        )
        files.append(MirrorRowFile(file.path, file.rows, missing_values))
    return tuple(files)


def find_first_row_ids(mirror: Mirror, schema: Schema) -> tuple[int | None, ...] | None:
    """Return the first row id of each indexed data file; None before format v3."""
    if mirror.table.metadata.format_version < 3:
        return None
    refuse_reserved_names(".".join(mirror.table.name()), schema)
    live = live_files(mirror.table.io, mirror.head)
    return tuple(
        live[file.path].first_row_id if file.path in live else None
        for file in (mirror.root.files if mirror.root else ())
    )
