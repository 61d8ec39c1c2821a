"""Write: one deletion vector for each data file with rows that go (format v3), all in one Puffin file."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial

import numpy as np
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata

from icemirror.errors import REBUILD, Corrupt
from spark_job.distinct import united
from spark_job.files.round_trips import for_each
from spark_job.files.written import written_before_commit
from spark_job.iceberg.file_locations import file_locations
from spark_job.iceberg.view import DELETED_PATH_ID, LiveDelete, LiveFile
from spark_job.key_index.puffin import Blob, Span, read_span, write_puffin
from spark_job.write.deletion_vector import BLOB_TYPE, decode_vector, encode_vector, most_bytes
from spark_job.write.position_deletes import Positions, files_by_delete, read_position_deletes

_ROW_POSITION_ID = 2147483645  # `_pos`: reserved field ids of the spec


def write_vectors(
    io: FileIO,
    metadata: TableMetadata,
    doomed: Mapping[str, Positions],
    live: Mapping[str, LiveFile],
    written: list[str] | None = None,
) -> list[DataFile]:
    """The vectors for positions by data file, each with all that was deleted of its file before.

    The path is noted in `written`, for whoever has to clean up if the commit fails.
    """
    if not doomed:
        return []
    earlier = deleted_positions(io, {path: live[path] for path in doomed})
    merged = {path: _merge(live[path], earlier[path], positions) for path, positions in doomed.items()}
    blobs = [
        Blob(
            BLOB_TYPE,
            encode_vector(positions),
            {"referenced-data-file": path, "cardinality": str(len(positions))},
            (_ROW_POSITION_ID,),
        )
        for path, positions in merged.items()
    ]
    locations = file_locations(metadata.location, metadata.properties)
    location = locations.new_data_location(f"{uuid.uuid4()}-deletes.puffin")
    if written is not None:
        written.append(location)
    with written_before_commit(io, [location]):
        size, spans = write_puffin(io, location, blobs)
    return [
        _describe(location, size, span, live[path], len(positions))
        for (path, positions), span in zip(merged.items(), spans, strict=True)
    ]


def _describe(location: str, file_bytes: int, span: Span, target: LiveFile, cardinality: int) -> DataFile:
    # Only readers of older formats look at bounds; those that know none of the new fields find the data file by them.
    bounds = {DELETED_PATH_ID: target.path.encode()}
    file = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.POSITION_DELETES,
        file_path=location,
        file_format=FileFormat.PUFFIN,
        partition=target.partition,
        record_count=cardinality,
        file_size_in_bytes=file_bytes,
        lower_bounds=bounds,
        upper_bounds=bounds,
        referenced_data_file=target.path,
        content_offset=span.offset,
        content_size_in_bytes=span.length,
    )
    file.spec_id = target.spec_id
    return file


def _merge(target: LiveFile, earlier: Positions, positions: Positions) -> Positions:
    """Both, ascending. A row that goes was there until now."""
    merged = united(earlier, positions)
    if len(merged) != target.deleted + len(positions):
        raise Corrupt(
            f"{target.path}: {target.deleted} rows were deleted, {len(positions)} more are to go, which together "
            f"are {len(merged)}: some are deleted already; nothing was committed. To go on, {REBUILD}."
        )
    if int(merged[-1]) >= target.rows:
        raise Corrupt(
            f"{target.path}: has {target.rows} rows, but row {int(merged[-1])} is to go; nothing was committed. To go "
            f"on, {REBUILD}."
        )
    return merged


def deleted_positions(io: FileIO, targets: Mapping[str, LiveFile]) -> dict[str, Positions]:
    """What is deleted of each data file, from its vector or else from all files of position deletes about it."""
    wanted = files_by_delete(targets.values())
    parts: dict[str, list[Positions]] = {path: [np.empty(0, np.int64)] for path in targets}
    for found in for_each(partial(_read, io), list(wanted.items()), next(iter(targets), "")):
        for path, positions in found.items():
            parts[path].append(positions)
    return {path: np.concatenate(found) for path, found in parts.items()}


def _read(io: FileIO, wanted: tuple[LiveDelete, list[LiveFile]]) -> dict[str, Positions]:
    delete, targets = wanted
    if delete.is_vector:
        return {target.path: _read_vector(io, delete, target.rows) for target in targets}
    return read_position_deletes(io, wanted)


def _read_vector(io: FileIO, vector: LiveDelete, rows: int) -> Positions:
    span = Span(offset=vector.offset or 0, length=vector.bytes)
    source = f"{vector.path}, byte {span.offset}"
    return decode_vector(read_span(io, vector.path, span, most_bytes(rows)), rows, vector.rows, source)
