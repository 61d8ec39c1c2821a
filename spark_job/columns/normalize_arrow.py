"""Normalizes Arrow types: equal values have one Arrow type, independent of the writer."""

from __future__ import annotations

import pyarrow as pa

_MAX_PRECISION = 38  # of an Iceberg decimal


def normalized_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values of this type are compared."""
    if isinstance(kind, pa.BaseExtensionType):
        return normalized_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return normalized_type(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary(kind) or pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_decimal(kind):
        return pa.decimal128(_MAX_PRECISION, kind.scale)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns" if kind.unit == "ns" else "us", "UTC" if kind.tz else None)
    if pa.types.is_time(kind):
        return pa.time64("us")
    return pa.date32() if pa.types.is_date(kind) else kind


def normalize_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the same values in their normalized type."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = normalized_type(column.type)
    return column if column.type == kind else column.cast(kind)


def is_comparable(kind: pa.DataType, form: pa.DataType) -> bool:
    """Whether values of a file's type can be compared in this normalized type. Old timestamps lack the UTC flag."""
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(form):
        return bool(kind.unit == form.unit)
    return bool(kind == form)
