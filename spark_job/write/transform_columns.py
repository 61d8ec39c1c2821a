"""Apply Iceberg's transforms to columns: the values of partition and sort fields.

PyIceberg delegates them to its Rust library. This module calculates those that the library does not support, or for
which it deviates from the specification: dates outside of its calendar, nanoseconds before 1970, and numbers that
underflow their type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    DateType,
    IntegerType,
    LongType,
    PrimitiveType,
    TimestampNanoType,
    TimestamptzNanoType,
)

from spark_job.columns.physical_values import to_physical
from spark_job.iceberg.leaf_columns import leaf_columns

_DAY_MICROS = 86_400_000_000
_MICRO_NANOS = 1000
_NANOSECONDS = (TimestampNanoType, TimestamptzNanoType)

# Array of stored values → array of transformed values.
_Calculation = Callable[[NDArray[Any]], NDArray[Any]]


def transform_column(
    rows: pa.Table, schema: Schema, source_id: int, transform: Transform[Any, Any]
) -> pa.ChunkedArray:
    """Return the transformed values as plain numbers, bytes and text; the source may be nested in structs."""
    source = next(leaf for leaf in leaf_columns(schema) if leaf.field_id == source_id)
    column, field_type = source.values_in(rows), source.field_type
    match transform:
        case YearTransform() | MonthTransform() | DayTransform() | HourTransform():
            return _calculate(
                to_physical(column), lambda values: _since_1970(values, field_type, transform), pa.int32()
            )
        case TruncateTransform() if isinstance(field_type, IntegerType | LongType):
            width = transform.width
            return _calculate(column, lambda values: values - values % width, column.type)
        case BucketTransform() if isinstance(field_type, _NANOSECONDS):
            # The spec, "Appendix B": hashed like microseconds.
            column = _calculate(to_physical(column), lambda values: values // _MICRO_NANOS, pa.int64())
    if pa.types.is_large_binary(column.type):
        column = column.cast(pa.binary())  # the only binary type that PyIceberg's transforms accept
    return to_physical(transform.pyarrow_transform(field_type)(column))


def _calculate(column: pa.ChunkedArray, calculate: _Calculation, into: pa.DataType) -> pa.ChunkedArray:
    """Return the column, calculated for all values but NULL. Overflow wraps around, as in Iceberg Java."""
    chunks = []
    for chunk in column.chunks:
        values = calculate(chunk.fill_null(0).to_numpy(zero_copy_only=False))
        nulls = chunk.is_null().to_numpy(zero_copy_only=False)
        chunks.append(pa.array(values.astype(into.to_pandas_dtype()), into, mask=nulls))
    return pa.chunked_array(chunks, into)


def _since_1970(
    values: NDArray[Any], field_type: PrimitiveType, transform: Transform[Any, Any]
) -> NDArray[Any]:
    """Return whole years, months, days or hours since 1970; negative before that."""
    per_day = 1 if isinstance(field_type, DateType) else _DAY_MICROS
    if isinstance(field_type, _NANOSECONDS):
        per_day *= _MICRO_NANOS
    if isinstance(transform, HourTransform):
        return values // (per_day // 24)
    days = values // per_day
    if isinstance(transform, DayTransform):
        return days
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return months if isinstance(transform, MonthTransform) else months // 12
