"""Count the distinct deleted rows of data files whose delete counts differ from the index.

Iceberg allows a row to be deleted twice, within one position delete file or in two: engines that delete concurrently do
so. Delete files are read only where the counts differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyiceberg.io import FileIO

from spark_job.columns.distinct import distinct
from spark_job.iceberg.live_files import LiveFile
from spark_job.index.root import Root
from spark_job.write.position_deletes import Positions
from spark_job.write.vectors import deleted_positions


def recount_deleted_rows(
    io: FileIO, live: Mapping[str, LiveFile], root: Root | None
) -> Mapping[str, LiveFile]:
    """Return the data files, with distinct deletes recounted where live rows differ from the index."""
    indexed = {file.path: file.live for file in root.files if not file.removed} if root else {}
    differing = {
        path: file
        for path, file in live.items()
        if indexed.get(path) != file.rows - file.deleted
        and any(not delete.is_vector for delete in file.deletes)
    }
    if not differing:
        return live
    found = deleted_positions(io, differing)
    return {**live, **{path: with_distinct_deletes(file, found[path]) for path, file in differing.items()}}


def with_distinct_deletes(file: LiveFile, positions: Positions) -> LiveFile:
    """Return the file with the number of its distinct deleted rows."""
    return replace(file, deleted=len(distinct(positions)))
