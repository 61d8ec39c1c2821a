"""Manifests and data files with every kind of field."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from spark_job.pyiceberg_private.manifest_files import (
    NewManifest,
)

IO = PyArrowFileIO()


_UUID = UUID("0196f2b8-1c7e-7d0e-9a3b-5c2d1e0f4a5b")


# One partition value of each type, as PyIceberg represents it in memory.
PARTITIONS: list[tuple[IcebergType, Any]] = [
    (BooleanType(), True),
    (IntegerType(), -7),
    (LongType(), -(2**63)),
    (FloatType(), 0.5),
    (DoubleType(), -1e300),
    (DateType(), (dt.date(2031, 2, 3) - dt.date(1970, 1, 1)).days),
    (TimeType(), 1),
    (TimestampType(), -1),
    (TimestamptzType(), 2**62),
    (StringType(), "héé\x00"),
    (UUIDType(), _UUID),
    (FixedType(3), b"\x00\xff\x01"),
    (BinaryType(), b""),
    (DecimalType(20, 4), Decimal("-123.4567")),
]


SCHEMA = Schema(*(NestedField(number, f"c{number}", kind) for number, (kind, _) in enumerate(PARTITIONS, 1)))


SPEC = PartitionSpec(
    *(
        PartitionField(number, 1000 + number, IdentityTransform(), f"p{number}")
        for number in range(1, len(PARTITIONS) + 1)
    )
)


def data_file(number: int, partition: Record, version: Any = 2) -> DataFile:
    more = {"first_row_id": 2**40, "referenced_data_file": "x"} if version == 3 else {}
    file = DataFile.from_args(
        _table_format_version=version,
        content=DataFileContent.DATA,
        file_path=f"file:///d/{number}.parquet",
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=number,
        file_size_in_bytes=2**40 + number,
        column_sizes={1: number, 2**31 - 1: 0},
        value_counts={},
        null_value_counts=None,
        lower_bounds={1: b"", 2: b"\xff" * 300},
        split_offsets=[4, 2**35],
        **more,
    )
    file.spec_id = 0
    return file


def new_manifest(folder: Path, codec: Any, version: Any = 2, spec: PartitionSpec = SPEC) -> NewManifest:
    output = IO.new_output(f"file://{folder}/m.avro")
    return NewManifest(ManifestContent.DATA, spec, SCHEMA, output, 7, codec, version)


def fields_of(file: DataFile) -> list[Any]:
    """Return all fields, with maps as dictionaries that can be compared."""
    return [dict(value.items()) if hasattr(value, "items") else value for value in file._data]
