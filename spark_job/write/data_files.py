"""Write: rows as Parquet data files by the mirror's own properties, partition spec and sort order."""

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

from spark_job.iceberg.file_locations import file_locations
from spark_job.iceberg.lineage_columns import written_schema
from spark_job.iceberg.parquet_writer import ParquetFiles
from spark_job.write.partitions import Partition, split_rows
from spark_job.write.row_order import can_order, is_everybodys, order_rows, sort_order

_WRITERS = 4


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """The new data files, and for each row of the input its file (ordinal) and position."""

    files: tuple[DataFile, ...]
    file: NDArray[np.int32]
    pos: NDArray[np.int64]


def write_rows(
    io: FileIO, metadata: TableMetadata, rows: pa.Table, written: list[str] | None = None
) -> WrittenRows:
    """Writes the rows, those of a partition by the table's sort order, else in the order in which they come.

    Paths are noted in `written` before they are written, for whoever has to clean up after a failure.
    """
    schema, order = metadata.schema(), sort_order(metadata)
    sort_order_id = None
    places = np.arange(rows.num_rows)
    if can_order(order):
        places = order_rows(rows, schema, order)
        sort_order_id = order.order_id if is_everybodys(order, schema) else None
    split = split_rows(rows, places, schema, metadata.spec())
    if not np.array_equal(split.places, np.arange(rows.num_rows)):
        rows = rows.take(pa.array(split.places))  # once for all: for each partition it would cost all rows
    bounds = np.cumsum([0, *split.counts]).tolist()
    parts = [rows.slice(start, end - start) for start, end in pairwise(bounds)]
    whole = written_schema(schema, rows)
    target = _Target(io, metadata, whole, sort_order_id, [] if written is None else written)
    if len(parts) == 1:
        files = target.write(split.partitions[0], parts[0])
    else:
        # Opening and closing files is mostly waiting; few are open at once, however many partitions there are.
        with ThreadPoolExecutor(_WRITERS) as pool:
            files = list(chain.from_iterable(pool.map(target.write, split.partitions, parts)))
    file = np.empty(rows.num_rows, dtype=np.int32)
    pos = np.empty(rows.num_rows, dtype=np.int64)
    counts = np.array([one.record_count for one in files], dtype=np.int64)
    ends = np.cumsum(counts)
    file[split.places] = np.repeat(np.arange(len(files), dtype=np.int32), counts)
    pos[split.places] = np.arange(rows.num_rows) - np.repeat(ends - counts, counts)
    return WrittenRows(tuple(files), file, pos)


class _Target:
    """Where files of a table go."""

    def __init__(
        self,
        io: FileIO,
        metadata: TableMetadata,
        schema: Schema,
        sort_order_id: int | None,
        written: list[str],
    ) -> None:
        self._io = io
        self._spec_id = metadata.default_spec_id
        self._sort_order_id = sort_order_id
        self._written = written
        self._locations = file_locations(metadata.location, metadata.properties)
        self._parquet = ParquetFiles.of(schema, metadata.properties, sort_order(metadata))

    def write(self, partition: Partition, rows: pa.Table) -> list[DataFile]:
        """The files of one partition, one after the other."""
        files: list[DataFile] = []
        sizes = self._parquet.sizes()
        while rows.num_rows:
            path = partition.location(self._locations, f"{uuid.uuid4()}.parquet")
            self._written.append(path)
            statistics = self._parquet.write(self._io.new_output(path), rows, sizes)
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
