"""Each kind of values in one Arrow type, whichever the writer of a file used, and however wide its column was then."""

from __future__ import annotations

import pyarrow as pa

_MOST_DIGITS = 38  # of an Iceberg decimal


def one_form(kind: pa.DataType) -> pa.DataType:
    """The type in which values of this one are compared."""
    if isinstance(kind, pa.BaseExtensionType):
        return one_form(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return one_form(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary(kind) or pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_decimal(kind):
        return pa.decimal128(_MOST_DIGITS, kind.scale)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns" if kind.unit == "ns" else "us", "UTC" if kind.tz else None)
    if pa.types.is_time(kind):
        return pa.time64("us")
    return pa.date32() if pa.types.is_date(kind) else kind


def in_one_form(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = one_form(column.type)
    return column if column.type == kind else column.cast(kind)


def fits(kind: pa.DataType, form: pa.DataType) -> bool:
    """Whether values of a type that a file has can be compared in a form. Old timestamps do not tell of UTC."""
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(form):
        return bool(kind.unit == form.unit)
    return bool(kind == form)
