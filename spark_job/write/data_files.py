"""Write rows as Parquet data files, by the table's properties, partition spec and sort order."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortOrder
from pyiceberg.transforms import IdentityTransform, TruncateTransform, UnknownTransform
from pyiceberg.types import UUIDType

from spark_job.iceberg.lineage_columns import written_schema
from spark_job.iceberg.write_properties import file_locations
from spark_job.index.keys import Indices
from spark_job.write.parquet_writer import ParquetFileWriter
from spark_job.write.partitions import Partition, split_rows
from spark_job.write.transform_columns import transform_column

_WRITER_THREADS = 4


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """The new data files, and for each input row the ordinal of its file and its position there."""

    files: tuple[DataFile, ...]
    file: NDArray[np.int32]
    pos: NDArray[np.int64]


NOTHING_WRITTEN = WrittenRows((), np.empty(0, np.int32), np.empty(0, np.int64))


def write_rows(
    io: FileIO, metadata: TableMetadata, rows: pa.Table, written: list[str] | None = None
) -> WrittenRows:
    """Write the rows by partition, each sorted by the table's sort order; without one, in input order.

    Paths are appended to `written` first, so that the caller can discard the files if the commit fails.
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
    target = _PartitionWriter(
        io, metadata, written_schema(schema, rows), sort_order_id, [] if written is None else written
    )
    if len(partitions) == 1:
        files = target.write(split.partitions[0], partitions[0])
    else:
        # Opening and closing files is mostly waiting. Few are open at once, however many partitions exist.
        with ThreadPoolExecutor(_WRITER_THREADS) as pool:
            files = list(chain.from_iterable(pool.map(target.write, split.partitions, partitions)))
    file = np.empty(rows.num_rows, dtype=np.int32)
    pos = np.empty(rows.num_rows, dtype=np.int64)
    counts = np.array([written.record_count for written in files], dtype=np.int64)
    ends = np.cumsum(counts)
    file[split.indices] = np.repeat(np.arange(len(files), dtype=np.int32), counts)
    pos[split.indices] = np.arange(rows.num_rows) - np.repeat(ends - counts, counts)
    return WrittenRows(tuple(files), file, pos)


class _PartitionWriter:
    """Writes the data files of a table, one partition at a time."""

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
        self._parquet = ParquetFileWriter(schema, metadata.properties, sort_order(metadata))

    def write(self, partition: Partition, rows: pa.Table) -> list[DataFile]:
        """Write the rows of one partition to as many files as they need."""
        files: list[DataFile] = []
        sizes = self._parquet.new_sizes()
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


def sort_order(metadata: TableMetadata) -> SortOrder:
    """Return the table's current sort order."""
    return metadata.sort_order_by_id(metadata.default_sort_order_id) or UNSORTED_SORT_ORDER


def can_sort(order: SortOrder) -> bool:
    """Return whether the order has fields, all with known transforms."""
    return bool(order.fields) and not any(
        isinstance(field.transform, UnknownTransform) for field in order.fields
    )


def is_portable_order(order: SortOrder, schema: Schema) -> bool:
    """Return whether all readers agree on the order.

    They disagree on uuids, which Iceberg Java compares as signed numbers (apache/iceberg#14216).
    """
    return not any(
        isinstance(field.transform, IdentityTransform | TruncateTransform)
        and isinstance(schema.find_type(field.source_id), UUIDType)
        for field in order.fields
    )


def sort_rows(rows: pa.Table, schema: Schema, order: SortOrder) -> Indices:
    """Return the row numbers in that order, as Iceberg compares values; the sort is stable."""
    columns: dict[str, pa.ChunkedArray] = {}
    keys: list[tuple[str, str]] = []
    for number, field in enumerate(order.fields):
        values = _comparable(transform_column(rows, schema, field.source_id, field.transform))
        if values.null_count:
            columns[f"null{number}"] = pc.is_null(values)
            nulls_first = field.null_order is NullOrder.NULLS_FIRST
            keys.append((f"null{number}", "descending" if nulls_first else "ascending"))
        columns[f"value{number}"] = values
        descending = field.direction is SortDirection.DESC
        keys.append((f"value{number}", "descending" if descending else "ascending"))
    indices: Indices = pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy().astype(np.int64)
    return indices


def _comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Map floating-point numbers to integers of the same order: −0.0 before 0.0, NaN after infinity."""
    if not pa.types.is_floating(values.type):
        return values
    array = values.combine_chunks()
    numbers = np.where(np.isnan(plain := array.to_numpy(zero_copy_only=False)), np.nan, plain)
    bits = numbers.astype(np.float64).view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(np.iinfo(np.int64).max), bits)
    return pa.chunked_array([pa.array(ordered, mask=array.is_null().to_numpy(zero_copy_only=False))])
