"""Sort rows by the table's sort order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortOrder
from pyiceberg.transforms import IdentityTransform, TruncateTransform, UnknownTransform
from pyiceberg.types import UUIDType

from spark_job.columns.arrays import Indices
from spark_job.write.transform_columns import transform_column


def sort_order(metadata: TableMetadata) -> SortOrder:
    """Return the table's current sort order."""
    return metadata.sort_order_by_id(metadata.default_sort_order_id) or UNSORTED_SORT_ORDER


def can_sort(order: SortOrder) -> bool:
    """Return whether the order has fields, all with known transforms."""
    return bool(order.fields) and not any(
        isinstance(field.transform, UnknownTransform) for field in order.fields
    )


def is_portable_order(order: SortOrder, schema: Schema) -> bool:
    """Return whether all readers agree on the order.

    They disagree on uuids, which Iceberg Java compares as signed numbers (apache/iceberg#14216).
    """
    return not any(
        isinstance(field.transform, IdentityTransform | TruncateTransform)
        and isinstance(schema.find_type(field.source_id), UUIDType)
        for field in order.fields
    )


def sort_rows(rows: pa.Table, schema: Schema, order: SortOrder) -> Indices:
    """Return the row numbers in that order, as Iceberg compares values; the sort is stable."""
    columns: dict[str, pa.ChunkedArray] = {}
    keys: list[tuple[str, str]] = []
    for index, field in enumerate(order.fields):
        values = _to_comparable(transform_column(rows, schema, field.source_id, field.transform))
        if values.null_count:
            columns[f"null{index}"] = pc.is_null(values)
            nulls_first = field.null_order is NullOrder.NULLS_FIRST
            keys.append((f"null{index}", "descending" if nulls_first else "ascending"))
        columns[f"value{index}"] = values
        descending = field.direction is SortDirection.DESC
        keys.append((f"value{index}", "descending" if descending else "ascending"))
    indices: Indices = pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy().astype(np.int64)
    return indices


def _to_comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Map floating-point numbers to integers of the same order: −0.0 before 0.0, NaN after infinity."""
    if not pa.types.is_floating(values.type):
        return values
    array = values.combine_chunks()
    floats = array.to_numpy(zero_copy_only=False)
    one_nan = np.where(np.isnan(floats), np.nan, floats)  # NaN has many bit patterns
    bits = one_nan.astype(np.float64).view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(np.iinfo(np.int64).max), bits)
    return pa.chunked_array([pa.array(ordered, mask=array.is_null().to_numpy(zero_copy_only=False))])
