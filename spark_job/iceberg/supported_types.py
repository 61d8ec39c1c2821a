"""Raises a specific error for column types and partition transforms that cannot be mirrored, before any write."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform, Transform, UnknownTransform
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
)

from icemirror.errors import Invalid

# `variant` is absent: PyIceberg cannot load a table that has it, see `translate_errors.catalog_response_errors`.
_UNSUPPORTED = (UnknownType, GeometryType, GeographyType)


def require_supported_types(
    changelog: str, schema: Schema, row_ids: Collection[int], format_version: int
) -> None:
    """Raise `Invalid` if a column of the row has, at any depth, a type that this format version lacks."""
    for field in schema.fields:
        if field.field_id not in row_ids:
            continue
        for iceberg_type in _nested_types(field.field_type):
            if isinstance(iceberg_type, _UNSUPPORTED):
                raise Invalid(
                    f"{changelog}: column {field.name} has type {iceberg_type}, which this version does not mirror. "
                    "Leave the column out of the changelog."
                )
            if isinstance(iceberg_type, StructType) and not iceberg_type.fields:
                raise Invalid(
                    f"{changelog}: column {field.name} has a struct without fields, which Parquet cannot hold. "
                    "Leave the column out of the changelog."
                )
            min_version = iceberg_type.minimum_format_version()
            if min_version > format_version:
                raise Invalid(
                    f"{changelog}: column {field.name} has type {iceberg_type}, which tables of format version "
                    f"{format_version} do not have. Set format_version: {min_version}; upgrade an "
                    "existing mirror with an engine (`ALTER TABLE … SET TBLPROPERTIES "
                    f"('format-version' = '{min_version}')`)."
                )


def required_format_version(schema: Schema) -> int:
    """Return the lowest format version that supports these columns."""
    return max(iceberg_type.minimum_format_version() for iceberg_type in _nested_types(schema.as_struct()))


def _nested_types(iceberg_type: IcebergType) -> Iterator[IcebergType]:
    """Yield a type and all types nested in it."""
    yield iceberg_type
    match iceberg_type:
        case StructType():
            for field in iceberg_type.fields:
                yield from _nested_types(field.field_type)
        case ListType():
            yield from _nested_types(iceberg_type.element_type)
        case MapType():
            yield from _nested_types(iceberg_type.key_type)
            yield from _nested_types(iceberg_type.value_type)


def require_supported_partition(
    name: str, column: str, iceberg_type: IcebergType, transform: Transform[Any, Any]
) -> None:
    """Raise `Invalid` for identity partitions by nanoseconds: neither Iceberg Java nor PyIceberg can read them."""
    if isinstance(transform, IdentityTransform) and isinstance(
        iceberg_type, TimestampNanoType | TimestamptzNanoType
    ):
        raise Invalid(
            f"{name}: neither Iceberg Java nor PyIceberg can read a partition by {column}, of type {iceberg_type}. "
            f"Partition by hour({column}) or bucket[16]({column})."
        )


def require_supported_transforms(name: str, metadata: TableMetadata) -> None:
    """Raise `Invalid` if another engine partitioned the mirror by a transform that this version does not support."""
    for field in metadata.spec().fields:
        source = metadata.schema().find_field(field.source_id)
        require_supported_partition(name, source.name, source.field_type, field.transform)
        if isinstance(field.transform, UnknownTransform):
            raise Invalid(
                f"{name}: another engine partitioned the mirror by {field.name}, with a transform that this version "
                "does not support; nothing was merged. Drop it with that engine (`ALTER TABLE … DROP PARTITION FIELD`)."
            )
