"""Write: rows as Parquet data files by the mirror's own properties and partition spec."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata

from spark_job.iceberg.parquet_writer import write_parquet
from spark_job.iceberg.write_properties import TARGET_FILE_BYTES, read_number
from spark_job.partitions import Partition, split_rows
from spark_job.row_lineage import written_schema


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """The new data files, and for each row of the input its file (ordinal) and position."""

    files: tuple[DataFile, ...]
    file: NDArray[np.int32]
    pos: NDArray[np.int64]


def write_rows(
    io: FileIO, metadata: TableMetadata, rows: pa.Table, written: list[str] | None = None
) -> WrittenRows:
    """Writes the rows, those of a partition in the order in which they come.

    Paths are noted in `written` before they are written, for whoever has to clean up after a failure.
    """
    files: list[DataFile] = []
    file = np.empty(rows.num_rows, dtype=np.int32)
    pos = np.empty(rows.num_rows, dtype=np.int64)
    for partition, places in split_rows(rows, metadata.schema(), metadata.spec()):
        part = rows if len(places) == rows.num_rows else rows.take(pa.array(places))
        for start, length in _cuts(part, metadata):
            here = places[start : start + length]
            file[here] = len(files)
            pos[here] = np.arange(length)
            path = _new_path(metadata, partition)
            if written is not None:
                written.append(path)
            files.append(_write_file(io, metadata, part.slice(start, length), partition, path))
    return WrittenRows(tuple(files), file, pos)


def _new_path(metadata: TableMetadata, partition: Partition) -> str:
    locations = load_location_provider(metadata.location, metadata.properties)
    return partition.location(locations, f"{uuid.uuid4()}.parquet")


def _write_file(
    io: FileIO, metadata: TableMetadata, rows: pa.Table, partition: Partition, path: str
) -> DataFile:
    output = io.new_output(path)
    schema = written_schema(metadata.schema(), rows)
    statistics = write_parquet(output, schema, metadata.properties, rows)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition.record,
        file_size_in_bytes=len(output),
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **statistics,
    )
    file.spec_id = metadata.default_spec_id
    return file


def _cuts(rows: pa.Table, metadata: TableMetadata) -> list[tuple[int, int]]:
    """Where to begin a new file, by the target size; Arrow's bytes stand for Parquet's."""
    target = read_number(metadata.properties, TARGET_FILE_BYTES)
    pieces = max(1, -(-rows.nbytes // target))
    size = -(-rows.num_rows // pieces)
    return [(start, min(size, rows.num_rows - start)) for start in range(0, rows.num_rows, size)]
