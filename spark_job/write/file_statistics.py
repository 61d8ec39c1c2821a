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

from spark_job.iceberg.leaf_columns import LeafColumn, to_physical
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
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    nans: dict[int, int] = {}
    lower_bounds: dict[int, bytes] = {}
    upper_bounds: dict[int, bytes] = {}
    for leaf in leaves:
        mode = modes[leaf.field_id]
        if not mode.counts:
            continue
        column = leaf.values_in(rows)
        values[leaf.field_id] = len(column)
        nulls[leaf.field_id] = column.null_count
        if isinstance(leaf.kind, FloatType | DoubleType):
            nans[leaf.field_id] = pc.sum(pc.is_nan(column)).as_py() or 0
        lower, upper = column_bounds(column, leaf.kind, mode.length) if mode.length else (None, None)
        if lower is not None:
            lower_bounds[leaf.field_id] = lower
        if upper is not None:
            upper_bounds[leaf.field_id] = upper
    sizes, offsets = _extents(footer, ids, modes)
    return {
        "record_count": rows.num_rows,
        "split_offsets": offsets,
        "column_sizes": sizes,
        "value_counts": values,
        "null_value_counts": nulls,
        "nan_value_counts": nans,
        "lower_bounds": lower_bounds,
        "upper_bounds": upper_bounds,
    }


def _extents(
    footer: pq.FileMetaData, ids: Mapping[str, int], modes: Mapping[int, MetricsMode]
) -> tuple[dict[int, int], list[int]]:
    """Return the bytes by column, and the offsets of row groups."""
    sizes: dict[int, int] = {}
    offsets: list[int] = []
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for number in range(footer.num_columns):
            column = group.column(number)
            if number == 0:
                first = column.dictionary_page_offset
                offsets.append(column.data_page_offset if first is None else first)
            field_id = ids[column.path_in_schema]
            if modes.get(field_id, NONE).counts:
                sizes[field_id] = sizes.get(field_id, 0) + column.total_compressed_size
    return sizes, offsets


def has_bounds(kind: PrimitiveType) -> bool:
    """Return whether columns of this type have bounds."""
    return not isinstance(kind, _UNBOUNDED)


def column_bounds(column: pa.ChunkedArray, kind: PrimitiveType, length: int) -> Bounds:
    """Return the bounds as the spec's Appendix D serializes them; text and bytes are truncated to a length."""
    if not has_bounds(kind) or column.null_count == len(column):
        return None, None
    if isinstance(kind, FloatType | DoubleType):
        return _float_bounds(column, "<f" if isinstance(kind, FloatType) else "<d")
    if isinstance(kind, StringType):
        return _text_bounds(column, length)
    extremes = pc.min_max(to_physical(column))
    lower, upper = extremes["min"].as_py(), extremes["max"].as_py()
    if isinstance(kind, BinaryType):
        return lower[:length], round_up_bytes(upper, length)
    return to_bytes(kind, lower), to_bytes(kind, upper)


def _text_bounds(column: pa.ChunkedArray, length: int) -> Bounds:
    extremes = pc.min_max(column)
    try:
        lower, upper = extremes["min"].as_py(), extremes["max"].as_py()
    except UnicodeDecodeError:  # bytes of another encoding
        return None, None
    raised = round_up_text(upper, length)
    return lower[:length].encode(), None if raised is None else raised.encode()


def _float_bounds(column: pa.ChunkedArray, form: str) -> Bounds:
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
    return struct.pack(form, lower), struct.pack(form, upper)


def round_up_text(text: str, length: int) -> str | None:
    """Return the text, or the least text of at most `length` characters above it; None if none exists."""
    if len(text) <= length:
        return text
    for last in range(length - 1, -1, -1):
        code = ord(text[last])
        if code < _LAST_CHARACTER:
            following = _FIRST_AFTER_SURROGATES if code == _LAST_BEFORE_SURROGATES else code + 1
            return text[:last] + chr(following)
    return None


def round_up_bytes(value: bytes, length: int) -> bytes | None:
    """Return the value, or the least value of at most `length` bytes above it; None if none exists."""
    if len(value) <= length:
        return value
    kept = value[:length].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
