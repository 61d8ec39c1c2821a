"""Write the deletes of removed rows: deletion vectors (format v3), or position delete files (format v2).

Position delete files carry bounds, by which readers skip those of other data files.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata

from spark_job.iceberg.live_files import DELETED_PATH_ID, DELETED_POS_ID, LiveFile
from spark_job.iceberg.write_properties import file_locations
from spark_job.storage.parallel import map_parallel
from spark_job.write.position_deletes import cache_deletes
from spark_job.write.write_vectors import write_vectors

# Reserved field ids of the spec, "Position Delete Files".
_SCHEMA = pa.schema(
    [
        pa.field(
            "file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(DELETED_PATH_ID)}
        ),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(DELETED_POS_ID)}),
    ]
)
# A data file gets a separate delete file if few data files lose rows, or if it loses many: readers of other data files
# then need not read these deletes. All others share one delete file per partition, so that a merge that touches a
# hundred data files does not write a hundred delete files.
_MAX_SEPARATE_FILES = 4
_MIN_SEPARATE_ROWS, _MAX_SHARED_ROWS = 32, 1000
_SEPARATE_ROW_SHARE = 1 / 8
_PARALLEL_WRITE_ROWS = 100_000


def write_deletes(
    io: FileIO,
    metadata: TableMetadata,
    removed: Mapping[str, NDArray[np.int64]],
    live: Mapping[str, LiveFile],
    paths: list[str],
) -> list[DataFile]:
    """Write deletes for positions by data file; the positions of each file must be ascending and distinct.

    Paths are appended to `paths` first, so that the caller can discard the files if the commit fails.
    """
    if metadata.format_version >= 3:
        return write_vectors(io, metadata, removed, live, paths)
    groups = group_by_delete_file({path: len(rows) for path, rows in removed.items()}, live)
    locations = file_locations(metadata.location, metadata.properties)
    delete_paths = [locations.new_data_location(f"{uuid.uuid4()}-deletes.parquet") for _ in groups]
    paths.extend(delete_paths)

    def write(path_and_group: tuple[str, Sequence[str]]) -> DataFile:
        delete_path, data_paths = path_and_group
        return _write_file(io, delete_path, data_paths, removed, live[data_paths[0]])

    is_large = sum(map(len, removed.values())) > _PARALLEL_WRITE_ROWS
    return map_parallel(
        write, list(zip(delete_paths, groups, strict=True)), metadata.location, cpu_bound=is_large
    )


def group_by_delete_file(rows: Mapping[str, int], live: Mapping[str, LiveFile]) -> list[list[str]]:
    """Return groups of data files whose deletes share one delete file. `rows`: rows removed from each file. Pure."""
    if len(rows) <= _MAX_SEPARATE_FILES:
        return [[path] for path in rows]
    min_separate_rows = min(
        _MAX_SHARED_ROWS, max(_MIN_SEPARATE_ROWS, _SEPARATE_ROW_SHARE * sum(rows.values()))
    )
    separate = [[path] for path, count in rows.items() if count >= min_separate_rows]
    partitions: dict[tuple[int, object], list[str]] = {}
    for path in sorted(path for path, count in rows.items() if count < min_separate_rows):
        partitions.setdefault((live[path].spec_id, live[path].partition), []).append(path)
    return [*separate, *partitions.values()]


def _write_file(
    io: FileIO,
    delete_path: str,
    data_paths: Sequence[str],
    removed: Mapping[str, NDArray[np.int64]],
    first_target: LiveFile,
) -> DataFile:
    positions = [removed[path] for path in data_paths]
    count = sum(map(len, positions))
    all_positions = np.concatenate(positions)
    path_numbers = np.repeat(np.arange(len(data_paths), dtype=np.int32), [len(rows) for rows in positions])
    path_column = pa.DictionaryArray.from_arrays(pa.array(path_numbers), pa.array(data_paths)).cast(
        pa.string()
    )
    output = io.new_output(delete_path)
    with output.create() as stream:
        table = pa.table([path_column, pa.array(all_positions)], schema=_SCHEMA)
        pq.write_table(table, stream, compression="zstd", write_page_checksum=True)
    cache_deletes(delete_path, dict(zip(data_paths, positions, strict=True)))
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=delete_path,
        file_format=FileFormat.PARQUET,
        partition=first_target.partition,
        record_count=count,
        file_size_in_bytes=len(output),
        lower_bounds={
            DELETED_PATH_ID: data_paths[0].encode(),
            DELETED_POS_ID: struct.pack("<q", int(all_positions.min())),
        },
        upper_bounds={
            DELETED_PATH_ID: data_paths[-1].encode(),
            DELETED_POS_ID: struct.pack("<q", int(all_positions.max())),
        },
    )
    file.spec_id = first_target.spec_id
    return file
