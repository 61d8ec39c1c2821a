"""Normalizes Arrow types: equal values have one Arrow type, independent of the writer."""

from __future__ import annotations

import pyarrow as pa

_MAX_PRECISION = 38  # of an Iceberg decimal


def normalized_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type in which values of this type are compared."""
    if isinstance(arrow_type, pa.BaseExtensionType):
        return normalized_type(arrow_type.storage_type)
    if pa.types.is_dictionary(arrow_type):
        return normalized_type(arrow_type.value_type)
    if pa.types.is_string(arrow_type) or pa.types.is_string_view(arrow_type):
        return pa.large_string()
    if pa.types.is_binary(arrow_type) or pa.types.is_binary_view(arrow_type):
        return pa.large_binary()
    if pa.types.is_integer(arrow_type):
        return pa.int64()
    if pa.types.is_decimal(arrow_type):
        return pa.decimal128(_MAX_PRECISION, arrow_type.scale)
    if pa.types.is_timestamp(arrow_type):
        return pa.timestamp("ns" if arrow_type.unit == "ns" else "us", "UTC" if arrow_type.tz else None)
    if pa.types.is_time(arrow_type):
        return pa.time64("us")
    return pa.date32() if pa.types.is_date(arrow_type) else arrow_type


def normalize_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the same values in their normalized type."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    target_type = normalized_type(column.type)
    return column if column.type == target_type else column.cast(target_type)


def is_comparable(file_type: pa.DataType, normalized: pa.DataType) -> bool:
    """Return whether values of a file's type compare in this normalized type. Old timestamps lack the UTC flag."""
    if pa.types.is_timestamp(file_type) and pa.types.is_timestamp(normalized):
        return bool(file_type.unit == normalized.unit)
    return bool(file_type == normalized)
