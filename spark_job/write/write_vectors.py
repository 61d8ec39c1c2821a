"""Write deletion vectors (format v3): one Puffin file with the vectors of all data files that lose rows."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata

from icemirror.errors import REBUILD_ADVICE, Corrupt
from spark_job.columns.distinct import distinct_union
from spark_job.iceberg.live_files import DELETED_PATH_ID, LiveFile
from spark_job.iceberg.write_properties import file_locations
from spark_job.index.puffin import Blob, Span, write_puffin
from spark_job.storage.discard import discard_on_error
from spark_job.write.deletion_vectors import BLOB_TYPE, encode_vector
from spark_job.write.position_deletes import Positions
from spark_job.write.read_deletes import read_deleted_positions

_ROW_POSITION_ID = 2147483645  # `_pos`: a reserved field id of the spec


def write_vectors(
    io: FileIO,
    metadata: TableMetadata,
    removed: Mapping[str, Positions],
    live: Mapping[str, LiveFile],
    paths: list[str],
) -> list[DataFile]:
    """Write one vector per data file: the removed positions and all that were deleted before.

    The path is appended to `paths` first, so that the caller can discard the file if the commit fails.
    """
    if not removed:
        return []
    earlier = read_deleted_positions(io, {path: live[path] for path in removed})
    merged = {
        path: _merge_positions(live[path], earlier[path], positions) for path, positions in removed.items()
    }
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
    paths.append(location)
    with discard_on_error(io, [location]):
        size, spans = write_puffin(io, location, blobs)
    return [
        _delete_file(location, size, span, live[path], len(positions))
        for (path, positions), span in zip(merged.items(), spans, strict=True)
    ]


def _delete_file(location: str, file_bytes: int, span: Span, target: LiveFile, cardinality: int) -> DataFile:
    # Readers that do not know `referenced_data_file` find the data file by these bounds.
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


def _merge_positions(target: LiveFile, earlier: Positions, removed: Positions) -> Positions:
    """Return the earlier and the removed positions, ascending. Raise `Corrupt` if a row would be removed twice."""
    merged = distinct_union(earlier, removed)
    if len(merged) != target.deleted_rows + len(removed):
        raise Corrupt(
            f"{target.deleted_rows} rows were deleted and {len(removed)} more are removed, but together they are "
            f"{len(merged)}: some are deleted already; nothing was committed. To continue, {REBUILD_ADVICE}. "
            f"The data file: {target.path}"
        )
    if int(merged[-1]) >= target.rows:
        raise Corrupt(
            f"row {int(merged[-1])} of a data file with {target.rows} rows is removed; nothing was committed. To "
            f"continue, {REBUILD_ADVICE}. The data file: {target.path}"
        )
    return merged
