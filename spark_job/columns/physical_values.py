"""Converts Arrow columns to the numbers that Iceberg stores."""

from __future__ import annotations

import pyarrow as pa


def to_physical(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    """Return dates, times and timestamps as the numbers that Iceberg stores; other values unchanged."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    arrow_type = column.type
    if isinstance(arrow_type, pa.BaseExtensionType):
        return pa.chunked_array([chunk.storage for chunk in chunks], arrow_type.storage_type)
    if pa.types.is_date32(arrow_type) or pa.types.is_time32(arrow_type):
        return pa.chunked_array([chunk.view(pa.int32()) for chunk in chunks], pa.int32())
    if pa.types.is_temporal(arrow_type):
        return pa.chunked_array([chunk.view(pa.int64()) for chunk in chunks], pa.int64())
    return pa.chunked_array(chunks, arrow_type)
