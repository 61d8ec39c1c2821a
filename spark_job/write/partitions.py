"""Split rows by partition, with the partition values as Iceberg stores them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.locations import LocationProvider
from pyiceberg.typedef import Record
from pyiceberg.types import DecimalType

from icemirror.errors import Invalid
from spark_job.columns.arrays import Indices
from spark_job.write.transform_columns import transform_column

_MAX_FOLDER_BYTES = 200  # file systems allow 255
_MAX_PATH_BYTES = 500  # of all folders of a partition; object stores allow 1,024 for a whole name


@dataclass(frozen=True)
class Partition:
    """One partition: its record for the manifest, and its folders in Hive style."""

    record: Record
    path: str

    def to_path(self) -> str:
        """Return the folders. A location provider calls only this method of a `PartitionKey`."""
        return self.path

    def location(self, locations: LocationProvider, name: str) -> str:
        """Return the location of a new data file; folders with names that are too long are omitted."""
        fits = len(self.path.encode()) <= _MAX_PATH_BYTES and all(
            len(folder.encode()) <= _MAX_FOLDER_BYTES for folder in self.path.split("/")
        )
        key = cast(PartitionKey, self) if self.path and fits else None
        return locations.new_data_location(name, key)


@dataclass(frozen=True)
class PartitionedRows:
    """Row numbers grouped by partition, and how many rows each partition has."""

    indices: Indices
    partitions: Sequence[Partition]
    counts: Sequence[int]


def split_rows(rows: pa.Table, indices: Indices, schema: Schema, spec: PartitionSpec) -> PartitionedRows:
    """Group the rows by partition in one pass; within a partition they keep the order of `indices`."""
    if not spec.fields:
        return PartitionedRows(indices, [Partition(Record(), "")], [len(indices)])
    values = [
        transform_column(rows, schema, field.source_id, field.transform).take(pa.array(indices))
        for field in spec.fields
    ]
    names = [f"p{index}" for index in range(len(values))]
    partition_values = pa.table([*values, pa.array(indices)], names=[*names, "index"])
    grouped = partition_values.group_by(names, use_threads=False).aggregate([("index", "list")])
    records = [
        Record(*partition) for partition in zip(*(grouped[name].to_pylist() for name in names), strict=True)
    ]
    _refuse_overflowing_decimals(records, schema, spec)
    lists = grouped["index_list"].combine_chunks()
    return PartitionedRows(
        lists.flatten().to_numpy(),
        [Partition(record, _path(record, schema, spec)) for record in records],
        np.diff(lists.offsets.to_numpy()).tolist(),
    )


def _path(record: Record, schema: Schema, spec: PartitionSpec) -> str:
    """Return the folders of a partition; none for a day outside of Python's calendar."""
    try:
        return spec.partition_to_path(record, schema)
    except OverflowError:
        return ""


def _refuse_overflowing_decimals(records: Sequence[Record], schema: Schema, spec: PartitionSpec) -> None:
    """Raise `Invalid` if truncation gives a decimal more digits than its type has: −9 truncated to 100 is −100."""
    for index, (field, partition_field) in enumerate(
        zip(spec.fields, spec.partition_type(schema).fields, strict=True)
    ):
        value_type = partition_field.field_type
        if isinstance(value_type, DecimalType) and any(
            isinstance(value, Decimal) and len(value.as_tuple().digits) > value_type.precision
            for value in (record[index] for record in records)
        ):
            raise Invalid(
                f"the mirror is partitioned by {field.transform} of a column of type {value_type}, which gives values "
                "of more digits than that; no Iceberg writer can write them. Partition it by a smaller width."
            )
