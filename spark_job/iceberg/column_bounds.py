"""Lower and upper bounds of a column as Iceberg Java writes them: all values lie between, as closely as they can."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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

from spark_job.iceberg.leaf_columns import physical

Bounds = tuple[bytes | None, bytes | None]

# Iceberg Java compares uuids as signed numbers (apache/iceberg#14216): bounds would hide rows from it.
# Extents of shapes are not those of their bytes.
_UNBOUNDED = (UUIDType, GeometryType, GeographyType, UnknownType)
_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES, _LAST_CHARACTER = 0xD7FF, 0xE000, 0x10FFFF


def has_bounds(kind: PrimitiveType) -> bool:
    """Whether columns of a type have bounds at all."""
    return not isinstance(kind, _UNBOUNDED)


def column_bounds(column: pa.ChunkedArray, kind: PrimitiveType, length: int) -> Bounds:
    """The bounds in the form of the specification's Appendix D; text and bytes are cut to a length."""
    if not has_bounds(kind) or column.null_count == len(column):
        return None, None
    if isinstance(kind, FloatType | DoubleType):
        return _float_bounds(column, "<f" if isinstance(kind, FloatType) else "<d")
    if isinstance(kind, StringType):
        return _text_bounds(column, length)
    extremes = pc.min_max(physical(column))
    lower, upper = extremes["min"].as_py(), extremes["max"].as_py()
    if isinstance(kind, BinaryType):
        return lower[:length], raise_bytes(upper, length)
    return to_bytes(kind, lower), to_bytes(kind, upper)


def _text_bounds(column: pa.ChunkedArray, length: int) -> Bounds:
    extremes = pc.min_max(column)
    try:
        lower, upper = extremes["min"].as_py(), extremes["max"].as_py()
    except UnicodeDecodeError:  # not text: bytes of another encoding
        return None, None
    raised = raise_text(upper, length)
    return lower[:length].encode(), None if raised is None else raised.encode()


def _float_bounds(column: pa.ChunkedArray, form: str) -> Bounds:
    """NaN is in no bound, and −0.0 comes before 0.0."""
    extremes = pc.min_max(column)
    lower, upper = extremes["min"].as_py(), extremes["max"].as_py()
    if lower != lower or upper != upper:  # nothing but NaN
        return None, None
    if lower == 0 or upper == 0:
        values = column.to_numpy()
        negative = np.signbit(values[values == 0])
        lower = -0.0 if lower == 0 and negative.any() else lower + 0.0
        upper = -0.0 if upper == 0 and negative.all() else upper + 0.0
    return struct.pack(form, lower), struct.pack(form, upper)


def raise_text(text: str, length: int) -> str | None:
    """At most so many characters, not below the text; None if there is no such text."""
    if len(text) <= length:
        return text
    for last in range(length - 1, -1, -1):
        code = ord(text[last])
        if code < _LAST_CHARACTER:
            following = _FIRST_AFTER_SURROGATES if code == _LAST_BEFORE_SURROGATES else code + 1
            return text[:last] + chr(following)
    return None


def raise_bytes(value: bytes, length: int) -> bytes | None:
    """At most so many bytes, not below the value; None if there are none."""
    if len(value) <= length:
        return value
    kept = value[:length].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
