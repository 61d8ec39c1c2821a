"""The values of a partition or sort field: a column of the rows under one of Iceberg's transforms."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.transforms import Transform

from spark_job.iceberg.leaf_columns import leaf_columns, physical


def transform_column(
    rows: pa.Table, schema: Schema, source_id: int, transform: Transform[Any, Any]
) -> pa.ChunkedArray:
    """Plain numbers, bytes and text; the source may lie inside of structs."""
    source = next(leaf for leaf in leaf_columns(schema) if leaf.field_id == source_id)
    column = source.of(rows)
    if pa.types.is_large_binary(column.type):
        column = column.cast(pa.binary())  # all that the transforms of PyIceberg take
    return physical(transform.pyarrow_transform(source.kind)(column))
