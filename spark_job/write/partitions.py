"""The partitions of rows: their values as Iceberg stores them, and which rows belong to each."""

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
from spark_job.key_index.keys import Indices
from spark_job.write.transform_columns import transform_column

_LONGEST_FOLDER = 200  # bytes; file systems allow 255
_LONGEST_PATH = 500  # bytes, of all folders of a partition; object stores allow 1,024 for a whole name


@dataclass(frozen=True)
class Partition:
    """One partition: its record for the manifest, and the folders that people expect of it."""

    record: Record
    path: str

    def to_path(self) -> str:
        """What a location provider asks of a partition."""
        return self.path

    def location(self, locations: LocationProvider, name: str) -> str:
        """Where a data file of the partition goes; values that are too long for folders are left out."""
        fits = len(self.path.encode()) <= _LONGEST_PATH and all(
            len(folder.encode()) <= _LONGEST_FOLDER for folder in self.path.split("/")
        )
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
    _require_fitting(records, schema, spec)
    lists = grouped["place_list"].combine_chunks()
    return Split(
        lists.flatten().to_numpy(),
        [Partition(record, _path(record, schema, spec)) for record in records],
        np.diff(lists.offsets.to_numpy()).tolist(),
    )


def _path(record: Record, schema: Schema, spec: PartitionSpec) -> str:
    """The folders of a partition; none where it is of a day that Python has no name for."""
    try:
        return spec.partition_to_path(record, schema)
    except OverflowError:
        return ""


def _require_fitting(records: Sequence[Record], schema: Schema, spec: PartitionSpec) -> None:
    """Refuses decimals that got more digits than their type has, by being truncated: −9 to a hundred is −100."""
    for place, (field, typed) in enumerate(zip(spec.fields, spec.partition_type(schema).fields, strict=True)):
        kind = typed.field_type
        if isinstance(kind, DecimalType) and any(
            isinstance(value, Decimal) and len(value.as_tuple().digits) > kind.precision
            for value in (record[place] for record in records)
        ):
            raise Invalid(
                f"the mirror is partitioned by {field.transform} of a column of type {kind}, which gives values of "
                "more digits than that; no Iceberg writer can write them. Partition it by a smaller number."
            )
