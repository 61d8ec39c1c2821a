"""Write: the deletes of the rows that go; position deletes (format v2) with bounds that let readers skip them."""

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

from spark_job.files.round_trips import for_each
from spark_job.iceberg.file_locations import file_locations
from spark_job.iceberg.view import DELETED_PATH_ID, DELETED_POS_ID, LiveFile
from spark_job.write.position_deletes import remember_deletes
from spark_job.write.vectors import write_vectors

# Reserved field ids of the spec, "Position Delete Files".
_SCHEMA = pa.schema(
    [
        pa.field(
            "file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(DELETED_PATH_ID)}
        ),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(DELETED_POS_ID)}),
    ]
)
# Rows of few data files, and of one that loses many, go to a delete file that is about nothing else: whoever reads
# another data file need not read them. All others share one in their partition: a merge that touches a hundred data
# files must not write a hundred files.
_MOST_FILES = 4
_FEW_OF_ONE, _MANY_OF_ONE = 32, 1000
_MUCH_OF_ALL = 1 / 8
_MANY_ROWS = 100_000


def write_deletes(
    io: FileIO,
    metadata: TableMetadata,
    doomed: Mapping[str, NDArray[np.int64]],
    live: Mapping[str, LiveFile],
    written: list[str] | None = None,
) -> list[DataFile]:
    """Delete files for positions by data file; each set of positions is ascending and free of doubles.

    Paths are noted in `written` before they are written, for whoever has to clean up after a failure.
    """
    if metadata.format_version >= 3:
        return write_vectors(io, metadata, doomed, live, written)
    groups = group_files({path: len(rows) for path, rows in doomed.items()}, live)
    locations = file_locations(metadata.location, metadata.properties)
    targets = [locations.new_data_location(f"{uuid.uuid4()}-deletes.parquet") for _ in groups]
    if written is not None:
        written.extend(targets)

    def write(file: tuple[str, Sequence[str]]) -> DataFile:
        target, paths = file
        return _write_file(io, target, paths, doomed, live[paths[0]])

    many = sum(map(len, doomed.values())) > _MANY_ROWS
    return for_each(write, list(zip(targets, groups, strict=True)), metadata.location, heavy=many)


def group_files(rows: Mapping[str, int], live: Mapping[str, LiveFile]) -> list[list[str]]:
    """The data files, by how many of their rows go, whose deletes go to one file. Pure."""
    if len(rows) <= _MOST_FILES:
        return [[path] for path in rows]
    many = min(_MANY_OF_ONE, max(_FEW_OF_ONE, _MUCH_OF_ALL * sum(rows.values())))
    own = [[path] for path, count in rows.items() if count >= many]
    partitions: dict[tuple[int, object], list[str]] = {}
    for path in sorted(path for path, count in rows.items() if count < many):
        partitions.setdefault((live[path].spec_id, live[path].partition), []).append(path)
    return [*own, *partitions.values()]


def _write_file(
    io: FileIO,
    location: str,
    paths: Sequence[str],
    doomed: Mapping[str, NDArray[np.int64]],
    target: LiveFile,
) -> DataFile:
    positions = [doomed[path] for path in paths]
    count = sum(map(len, positions))
    every = np.concatenate(positions)
    lengths = pa.array(np.repeat(np.arange(len(paths), dtype=np.int32), [len(part) for part in positions]))
    names = pa.DictionaryArray.from_arrays(lengths, pa.array(paths)).cast(pa.string())
    output = io.new_output(location)
    with output.create() as stream:
        table = pa.table([names, pa.array(every)], schema=_SCHEMA)
        pq.write_table(table, stream, compression="zstd", write_page_checksum=True)
    remember_deletes(location, dict(zip(paths, positions, strict=True)))
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=target.partition,
        record_count=count,
        file_size_in_bytes=len(output),
        lower_bounds={
            DELETED_PATH_ID: paths[0].encode(),
            DELETED_POS_ID: struct.pack("<q", int(every.min())),
        },
        upper_bounds={
            DELETED_PATH_ID: paths[-1].encode(),
            DELETED_POS_ID: struct.pack("<q", int(every.max())),
        },
    )
    file.spec_id = target.spec_id
    return file
