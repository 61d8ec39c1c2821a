"""Write: rows as Parquet data files by the mirror's own properties and partition spec."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from spark_job.iceberg.seams import write_parquet
from spark_job.key_index.keys import Indices

_TARGET_FILE_BYTES = "write.target-file-size-bytes"
_DEFAULT_TARGET_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """The new data files, and for each row of the input its file (ordinal) and position."""

    files: tuple[DataFile, ...]
    file: NDArray[np.int32]
    pos: NDArray[np.int64]


def write_rows(io: FileIO, metadata: TableMetadata, rows: pa.Table) -> WrittenRows:
    """Writes the rows, those of a partition in the order in which they come."""
    schema, spec = metadata.schema(), metadata.spec()
    files: list[DataFile] = []
    file = np.empty(rows.num_rows, dtype=np.int32)
    pos = np.empty(rows.num_rows, dtype=np.int64)
    for partition, places in _partitions(rows, schema, spec):
        part = rows if places is None else rows.take(pa.array(places))
        all_places = np.arange(rows.num_rows) if places is None else places
        for start, length in _cuts(part, metadata):
            piece = part.slice(start, length)
            here = all_places[start : start + length]
            file[here] = len(files)
            pos[here] = np.arange(length)
            files.append(_write_file(io, metadata, piece, partition))
    return WrittenRows(tuple(files), file, pos)


def _write_file(
    io: FileIO, metadata: TableMetadata, rows: pa.Table, partition: PartitionKey | None
) -> DataFile:
    locations = load_location_provider(metadata.location, metadata.properties)
    path = locations.new_data_location(f"{uuid.uuid4()}.parquet", partition)
    output = io.new_output(path)
    statistics = write_parquet(output, metadata.schema(), metadata.properties, rows)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition.partition if partition else Record(),
        file_size_in_bytes=len(output),
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **statistics,
    )
    file.spec_id = metadata.default_spec_id
    return file


def _partitions(
    rows: pa.Table, schema: Schema, spec: PartitionSpec
) -> Iterator[tuple[PartitionKey | None, Indices | None]]:
    """Each partition with the places of its rows, in one pass however many there are."""
    if not spec.fields:
        yield None, None
        return
    values: list[pa.ChunkedArray] = []
    for field in spec.fields:
        source = schema.find_field(field.source_id)
        values.append(field.transform.pyarrow_transform(source.field_type)(rows[source.name]))
    names = [f"p{at}" for at in range(len(values))]
    keyed = pa.table([*values, pa.array(np.arange(rows.num_rows))], names=[*names, "place"])
    grouped = keyed.group_by(names, use_threads=False).aggregate([("place", "list")])
    for group in range(grouped.num_rows):
        fields = [
            PartitionFieldValue(field=field, value=grouped[name][group].as_py())
            for field, name in zip(spec.fields, names, strict=True)
        ]
        places = grouped["place_list"][group].values.to_numpy()
        yield PartitionKey(field_values=fields, partition_spec=spec, schema=schema), places


def _cuts(rows: pa.Table, metadata: TableMetadata) -> list[tuple[int, int]]:
    """Where to begin a new file, by the target size; Arrow's bytes stand for Parquet's."""
    target = int(metadata.properties.get(_TARGET_FILE_BYTES, _DEFAULT_TARGET_BYTES))
    pieces = max(1, -(-rows.nbytes // target))
    size = -(-rows.num_rows // pieces)
    return [(start, min(size, rows.num_rows - start)) for start in range(0, rows.num_rows, size)]
