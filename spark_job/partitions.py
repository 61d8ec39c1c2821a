"""The partitions of rows: their values as Iceberg stores them, and which rows belong to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.locations import LocationProvider
from pyiceberg.typedef import Record

from spark_job.key_index.keys import Indices
from spark_job.transform_columns import transform_column

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


@dataclass(frozen=True)
class Split:
    """Rows by partition: the places of all rows, one partition after the other, and how many each has."""

    places: Indices
    partitions: Sequence[Partition]
    counts: Sequence[int]


def split_rows(rows: pa.Table, places: Indices, schema: Schema, spec: PartitionSpec) -> Split:
    """The rows by partition, in one pass however many there are; within each they keep the order of `places`."""
    if not spec.fields:
        return Split(places, [Partition(Record(), "")], [len(places)])
    values = [
        transform_column(rows, schema, field.source_id, field.transform).take(pa.array(places))
        for field in spec.fields
    ]
    names = [f"p{number}" for number in range(len(values))]
    keyed = pa.table([*values, pa.array(places)], names=[*names, "place"])
    grouped = keyed.group_by(names, use_threads=False).aggregate([("place", "list")])
    records = [Record(*of_one) for of_one in zip(*(grouped[name].to_pylist() for name in names), strict=True)]
    lists = grouped["place_list"].combine_chunks()
    return Split(
        lists.flatten().to_numpy(),
        [Partition(record, spec.partition_to_path(record, schema)) for record in records],
        np.diff(lists.offsets.to_numpy()).tolist(),
    )
