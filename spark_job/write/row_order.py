"""The order of rows in a file, by the table's sort order, as Iceberg compares values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortOrder
from pyiceberg.transforms import IdentityTransform, TruncateTransform, UnknownTransform
from pyiceberg.types import UUIDType

from spark_job.key_index.keys import Indices
from spark_job.write.transform_columns import transform_column


def sort_order(metadata: TableMetadata) -> SortOrder:
    """The table's order at present."""
    return metadata.sort_order_by_id(metadata.default_sort_order_id) or UNSORTED_SORT_ORDER


def can_order(order: SortOrder) -> bool:
    """Whether there is an order, of transforms that are known."""
    return bool(order.fields) and not any(
        isinstance(field.transform, UnknownTransform) for field in order.fields
    )


def is_everybodys(order: SortOrder, schema: Schema) -> bool:
    """Whether all readers agree on the order: Iceberg Java compares uuids as signed numbers (apache/iceberg#14216)."""
    return not any(
        isinstance(field.transform, IdentityTransform | TruncateTransform)
        and isinstance(schema.find_type(field.source_id), UUIDType)
        for field in order.fields
    )


def order_rows(rows: pa.Table, schema: Schema, order: SortOrder) -> Indices:
    """The places of the rows in that order; equal rows stay as they come."""
    columns: dict[str, pa.ChunkedArray] = {}
    keys: list[tuple[str, str]] = []
    for number, field in enumerate(order.fields):
        values = _comparable(transform_column(rows, schema, field.source_id, field.transform))
        if values.null_count:
            columns[f"null{number}"] = pc.is_null(values)
            first = field.null_order is NullOrder.NULLS_FIRST
            keys.append((f"null{number}", "descending" if first else "ascending"))
        columns[f"value{number}"] = values
        down = field.direction is SortDirection.DESC
        keys.append((f"value{number}", "descending" if down else "ascending"))
    places: Indices = pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy().astype(np.int64)
    return places


def _comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floating-point numbers as whole numbers of the same order: −0.0 before 0.0, NaN after infinity."""
    if not pa.types.is_floating(values.type):
        return values
    array = values.combine_chunks()
    numbers = np.where(np.isnan(plain := array.to_numpy(zero_copy_only=False)), np.nan, plain)
    bits = numbers.astype(np.float64).view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(np.iinfo(np.int64).max), bits)
    return pa.chunked_array([pa.array(ordered, mask=array.is_null().to_numpy(zero_copy_only=False))])
