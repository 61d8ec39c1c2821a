"""Counts deleted rows one by one where what delete files count does not fit the index.

Iceberg allows a row to be deleted twice, in one file of position deletes or in two: engines that delete at the same
time do so. What is deleted is read only where the counts differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyiceberg.io import FileIO

from spark_job.distinct import distinct
from spark_job.iceberg.view import LiveFile
from spark_job.key_index.root import Root
from spark_job.write.position_deletes import Positions
from spark_job.write.vectors import deleted_positions


def recount(io: FileIO, live: Mapping[str, LiveFile], root: Root | None) -> Mapping[str, LiveFile]:
    """The data files, those that do not have as many live rows as the index counts with their distinct deletes."""
    known = {file.path: file.live for file in root.files if not file.gone} if root else {}
    odd = {
        path: file
        for path, file in live.items()
        if known.get(path) != file.rows - file.deleted and any(not one.is_vector for one in file.deletes)
    }
    if not odd:
        return live
    found = deleted_positions(io, odd)
    return {**live, **{path: with_distinct(file, found[path]) for path, file in odd.items()}}


def with_distinct(file: LiveFile, positions: Positions) -> LiveFile:
    """The file with what is really deleted of it."""
    return replace(file, deleted=len(distinct(positions)))
