"""Write rows as Parquet data files, by the table's properties, partition spec and sort order."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from spark_job.iceberg.lineage_columns import written_schema
from spark_job.iceberg.write_properties import file_locations
from spark_job.write.parquet_writer import ParquetFileWriter
from spark_job.write.partitions import Partition, PartitionedRows, split_rows
from spark_job.write.sort_rows import can_sort, is_portable_order, sort_order, sort_rows

_WRITER_THREADS = 4


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """The new data files, and for each input row the ordinal of its file and its position there."""

    files: tuple[DataFile, ...]
    file: NDArray[np.int32]
    pos: NDArray[np.int64]


NOTHING_WRITTEN = WrittenRows((), np.empty(0, np.int32), np.empty(0, np.int64))


def write_rows(io: FileIO, metadata: TableMetadata, rows: pa.Table, paths: list[str]) -> WrittenRows:
    """Write the rows by partition, each sorted by the table's sort order; without one, in input order.

    Paths are appended to `paths` first, so that the caller can discard the files if the commit fails.
    """
    schema, order = metadata.schema(), sort_order(metadata)
    sort_order_id = None
    indices = np.arange(rows.num_rows)
    if can_sort(order):
        indices = sort_rows(rows, schema, order)
        sort_order_id = order.order_id if is_portable_order(order, schema) else None
    split = split_rows(rows, indices, schema, metadata.spec())
    if not np.array_equal(split.indices, np.arange(rows.num_rows)):
        rows = rows.take(pa.array(split.indices))  # one take for all partitions: each take costs all rows
    bounds = np.cumsum([0, *split.counts]).tolist()
    partitions = [rows.slice(start, end - start) for start, end in pairwise(bounds)]
    writer = _PartitionWriter(io, metadata, written_schema(schema, rows), sort_order_id, paths)
    if len(partitions) == 1:
        files = writer.write(split.partitions[0], partitions[0])
    else:
        # Opening and closing files is mostly waiting. Few are open at once, however many partitions exist.
        with ThreadPoolExecutor(_WRITER_THREADS) as pool:
            files = list(chain.from_iterable(pool.map(writer.write, split.partitions, partitions)))
    return _locate_rows(split, files)


def _locate_rows(split: PartitionedRows, files: list[DataFile]) -> WrittenRows:
    """Return where each input row was written; `files` contain the rows in the order of `split.indices`."""
    row_count = len(split.indices)
    file_ordinal = np.empty(row_count, dtype=np.int32)
    position = np.empty(row_count, dtype=np.int64)
    counts = np.array([file.record_count for file in files], dtype=np.int64)
    ends = np.cumsum(counts)
    file_ordinal[split.indices] = np.repeat(np.arange(len(files), dtype=np.int32), counts)
    position[split.indices] = np.arange(row_count) - np.repeat(ends - counts, counts)
    return WrittenRows(tuple(files), file_ordinal, position)


class _PartitionWriter:
    """Writes the data files of a table, one partition at a time."""

    def __init__(
        self,
        io: FileIO,
        metadata: TableMetadata,
        schema: Schema,
        sort_order_id: int | None,
        paths: list[str],
    ) -> None:
        self._io = io
        self._spec_id = metadata.default_spec_id
        self._sort_order_id = sort_order_id
        self._paths = paths
        self._locations = file_locations(metadata.location, metadata.properties)
        self._parquet = ParquetFileWriter(schema, metadata.properties, sort_order(metadata))

    def write(self, partition: Partition, rows: pa.Table) -> list[DataFile]:
        """Write the rows of one partition to as many files as they need."""
        files: list[DataFile] = []
        sizer = self._parquet.new_sizer()
        while rows.num_rows:
            path = partition.location(self._locations, f"{uuid.uuid4()}.parquet")
            self._paths.append(path)
            statistics = self._parquet.write(self._io.new_output(path), rows, sizer)
            rows = rows.slice(statistics["record_count"])
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=path,
                file_format=FileFormat.PARQUET,
                partition=partition.record,
                sort_order_id=self._sort_order_id,
                equality_ids=None,
                key_metadata=None,
                **statistics,
            )
            file.spec_id = self._spec_id
            files.append(file)
        return files
