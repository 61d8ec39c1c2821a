"""The data files of a mirror as its index numbers them, to read rows of."""

from __future__ import annotations

from spark_job.changelog.change_file import ChangeFile
from spark_job.columns.absent import AbsentIn
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.view import live_files


def indexed_files(mirror: Mirror, *, staged: bool) -> tuple[ChangeFile, ...]:
    """Each with what the columns hold that it may not have; those of a stage have all columns."""
    if mirror.root is None:
        return ()
    metadata = mirror.table.metadata
    live = {} if staged else live_files(mirror.table.io, mirror.head)
    absent_in = AbsentIn(metadata.schema(), metadata.specs())
    found: list[ChangeFile] = []
    for file in mirror.root.files:
        there = live.get(file.path)
        absent = absent_in.of(there.spec_id, there.partition) if there else {}
        found.append(ChangeFile(file.path, 0, file.rows, 0, 0, tuple(absent.items())))
    return tuple(found)
