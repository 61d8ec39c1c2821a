"""The partitions of rows: their values as Iceberg stores them, and which rows belong to each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.locations import LocationProvider
from pyiceberg.typedef import Record

from spark_job.key_index.keys import Indices

_LONGEST_FOLDER = 200  # bytes; file systems allow 255


@dataclass(frozen=True)
class Partition:
    """One partition: its record for the manifest, and the folders that people expect of it."""

    record: Record
    path: str

    def to_path(self) -> str:
        """What a location provider asks of a partition."""
        return self.path

    def location(self, locations: LocationProvider, name: str) -> str:
        """Where a data file of the partition goes; a value that is too long for a folder is left out."""
        fits = all(len(folder.encode()) <= _LONGEST_FOLDER for folder in self.path.split("/"))
        key = cast(PartitionKey, self) if self.path and fits else None
        return locations.new_data_location(name, key)


def split_rows(rows: pa.Table, schema: Schema, spec: PartitionSpec) -> Iterator[tuple[Partition, Indices]]:
    """Each partition with the places of its rows, in one pass however many there are."""
    if not spec.fields:
        yield Partition(Record(), ""), np.arange(rows.num_rows)
        return
    values = [_transformed(rows, schema, spec, number) for number in range(len(spec.fields))]
    names = [f"p{number}" for number in range(len(values))]
    keyed = pa.table([*values, pa.array(np.arange(rows.num_rows))], names=[*names, "place"])
    grouped = keyed.group_by(names, use_threads=False).aggregate([("place", "list")])
    for group in range(grouped.num_rows):
        record = Record(*(grouped[name][group].as_py() for name in names))
        places = grouped["place_list"][group].values.to_numpy()
        yield Partition(record, spec.partition_to_path(record, schema)), places


def _transformed(rows: pa.Table, schema: Schema, spec: PartitionSpec, number: int) -> pa.ChunkedArray:
    """The values of one partition field as plain numbers, bytes and text."""
    field = spec.fields[number]
    source = schema.find_field(field.source_id)
    column = rows[source.name]
    if pa.types.is_large_binary(column.type):
        column = column.cast(pa.binary())  # all that the transforms of PyIceberg take
    return _physical(field.transform.pyarrow_transform(source.field_type)(column))


def _physical(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.chunked_array([chunk.storage for chunk in chunks], kind.storage_type)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.chunked_array([chunk.view(pa.int32()) for chunk in chunks], pa.int32())
    if pa.types.is_temporal(kind):
        return pa.chunked_array([chunk.view(pa.int64()) for chunk in chunks], pa.int64())
    return pa.chunked_array(chunks, kind)
