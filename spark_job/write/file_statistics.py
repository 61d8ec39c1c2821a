"""Compute the statistics that a manifest stores for a data file, from the rows that were written.

Parquet's statistics are not enough: they omit values over 4 KiB, NaN, and the sign of zero. Bounds are those of Iceberg
Java: as tight as their length allows.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    PrimitiveType,
    StringType,
    UnknownType,
    UUIDType,
)

from spark_job.columns.physical_values import to_physical
from spark_job.iceberg.leaf_columns import LeafColumn
from spark_job.iceberg.metrics_modes import NONE, MetricsMode

Bounds = tuple[bytes | None, bytes | None]

# Iceberg Java compares uuids as signed numbers (apache/iceberg#14216): bounds would hide rows from it.
# Geometries are not ordered by their bytes.
_UNBOUNDED = (UUIDType, GeometryType, GeographyType, UnknownType)
_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES, _LAST_CHARACTER = 0xD7FF, 0xE000, 0x10FFFF


def file_statistics(
    rows: pa.Table,
    footer: pq.FileMetaData,
    leaves: Sequence[LeafColumn],
    ids: Mapping[str, int],
    modes: Mapping[int, MetricsMode],
) -> dict[str, Any]:
    """Return the statistics as `DataFile.from_args` takes them; `ids`: field ids by Parquet column path."""
    value_counts: dict[int, int] = {}
    null_counts: dict[int, int] = {}
    nan_counts: dict[int, int] = {}
    lower_bounds: dict[int, bytes] = {}
    upper_bounds: dict[int, bytes] = {}
    for leaf in leaves:
        mode = modes[leaf.field_id]
        if not mode.counts:
            continue
        column = leaf.values_in(rows)
        value_counts[leaf.field_id] = len(column)
        null_counts[leaf.field_id] = column.null_count
        if isinstance(leaf.field_type, FloatType | DoubleType):
            nan_counts[leaf.field_id] = pc.sum(pc.is_nan(column)).as_py() or 0
        lower, upper = column_bounds(column, leaf.field_type, mode.length) if mode.length else (None, None)
        if lower is not None:
            lower_bounds[leaf.field_id] = lower
        if upper is not None:
            upper_bounds[leaf.field_id] = upper
    sizes, offsets = _column_sizes_and_offsets(footer, ids, modes)
    return {
        "record_count": rows.num_rows,
        "split_offsets": offsets,
        "column_sizes": sizes,
        "value_counts": value_counts,
        "null_value_counts": null_counts,
        "nan_value_counts": nan_counts,
        "lower_bounds": lower_bounds,
        "upper_bounds": upper_bounds,
    }


def _column_sizes_and_offsets(
    footer: pq.FileMetaData, ids: Mapping[str, int], modes: Mapping[int, MetricsMode]
) -> tuple[dict[int, int], list[int]]:
    """Return the bytes by column, and the offsets of row groups."""
    sizes: dict[int, int] = {}
    offsets: list[int] = []
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for index in range(footer.num_columns):
            column = group.column(index)
            if index == 0:
                dictionary_offset = column.dictionary_page_offset
                offsets.append(column.data_page_offset if dictionary_offset is None else dictionary_offset)
            field_id = ids[column.path_in_schema]
            if modes.get(field_id, NONE).counts:
                sizes[field_id] = sizes.get(field_id, 0) + column.total_compressed_size
    return sizes, offsets


def has_bounds(field_type: PrimitiveType) -> bool:
    """Return whether columns of this type have bounds."""
    return not isinstance(field_type, _UNBOUNDED)


def column_bounds(column: pa.ChunkedArray, field_type: PrimitiveType, length: int) -> Bounds:
    """Return the bounds as the spec's Appendix D serializes them; text and bytes are truncated to a length."""
    if not has_bounds(field_type) or column.null_count == len(column):
        return None, None
    if isinstance(field_type, FloatType | DoubleType):
        return _float_bounds(column, "<f" if isinstance(field_type, FloatType) else "<d")
    if isinstance(field_type, StringType):
        return _text_bounds(column, length)
    extremes = pc.min_max(to_physical(column))
    lower, upper = extremes["min"].as_py(), extremes["max"].as_py()
    if isinstance(field_type, BinaryType):
        return lower[:length], round_up_bytes(upper, length)
    return to_bytes(field_type, lower), to_bytes(field_type, upper)


def _text_bounds(column: pa.ChunkedArray, length: int) -> Bounds:
    extremes = pc.min_max(column)
    try:
        lower, upper = extremes["min"].as_py(), extremes["max"].as_py()
    except UnicodeDecodeError:  # bytes of another encoding
        return None, None
    upper_bound = round_up_text(upper, length)
    return lower[:length].encode(), None if upper_bound is None else upper_bound.encode()


def _float_bounds(column: pa.ChunkedArray, struct_format: str) -> Bounds:
    """Return bounds without NaN; −0.0 is less than 0.0."""
    extremes = pc.min_max(column)
    lower, upper = extremes["min"].as_py(), extremes["max"].as_py()
    if lower != lower or upper != upper:  # all values are NaN
        return None, None
    if lower == 0 or upper == 0:
        values = column.to_numpy()
        negative = np.signbit(values[values == 0])
        lower = -0.0 if lower == 0 and negative.any() else lower + 0.0
        upper = -0.0 if upper == 0 and negative.all() else upper + 0.0
    return struct.pack(struct_format, lower), struct.pack(struct_format, upper)


def round_up_text(text: str, length: int) -> str | None:
    """Return the text, or the least text of at most `length` characters above it; None if none exists."""
    if len(text) <= length:
        return text
    for index in range(length - 1, -1, -1):
        code = ord(text[index])
        if code < _LAST_CHARACTER:
            next_code = _FIRST_AFTER_SURROGATES if code == _LAST_BEFORE_SURROGATES else code + 1
            return text[:index] + chr(next_code)
    return None


def round_up_bytes(value: bytes, length: int) -> bytes | None:
    """Return the value, or the least value of at most `length` bytes above it; None if none exists."""
    if len(value) <= length:
        return value
    prefix = value[:length].rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None
