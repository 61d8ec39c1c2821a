"""Read which rows of data files are deleted: by deletion vectors (format v3) or position delete files (format v2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from pyiceberg.io import FileIO

from spark_job.columns.distinct import distinct
from spark_job.iceberg.live_files import LiveDelete, LiveFile
from spark_job.index.root import Root
from spark_job.storage.parallel import map_parallel
from spark_job.write.deletion_vectors import read_vector
from spark_job.write.position_deletes import Positions, files_by_delete, read_position_deletes


def read_deleted_positions(io: FileIO, targets: Mapping[str, LiveFile]) -> dict[str, Positions]:
    """Return the deleted positions of each data file, from its vector or from all its position delete files."""

    def read(delete_and_targets: tuple[LiveDelete, list[LiveFile]]) -> dict[str, Positions]:
        delete, delete_targets = delete_and_targets
        if delete.is_vector:
            return {target.path: read_vector(io, delete, target.rows) for target in delete_targets}
        return read_position_deletes(io, delete, delete_targets)

    parts: dict[str, list[Positions]] = {path: [np.empty(0, np.int64)] for path in targets}
    deletes = list(files_by_delete(targets.values()).items())
    for positions_by_path in map_parallel(read, deletes, next(iter(targets), "")):
        for path, positions in positions_by_path.items():
            parts[path].append(positions)
    return {path: np.concatenate(path_parts) for path, path_parts in parts.items()}


def recount_deleted_rows(
    io: FileIO, live: Mapping[str, LiveFile], root: Root | None
) -> Mapping[str, LiveFile]:
    """Return the data files, with deleted rows recounted where the table's delete counts differ from the index.

    Iceberg allows a row to be deleted twice, within one position delete file or in two: engines that delete
    concurrently do so. Delete files are read only where the counts differ.
    """
    indexed = {file.path: file.live_rows for file in root.files if not file.removed} if root else {}
    differing = {
        path: file
        for path, file in live.items()
        if indexed.get(path) != file.live_rows and any(not delete.is_vector for delete in file.deletes)
    }
    if not differing:
        return live
    deleted = read_deleted_positions(io, differing)
    return {**live, **{path: with_distinct_deletes(file, deleted[path]) for path, file in differing.items()}}


def with_distinct_deletes(file: LiveFile, positions: Positions) -> LiveFile:
    """Return the file with the number of its distinct deleted rows."""
    return replace(file, deleted_rows=len(distinct(positions)))
