"""Rows of a given size that do not compress: a key and random bytes, to measure storage."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.workloads.uuid_text import uuid_texts
from benchmarks.workloads.workload import Ids, Shape

ROW_BYTES = (100, 1000)
_INTEGER_BYTES, _UUID_BYTES = 8, 36


def integer_shape(row_bytes: int) -> Shape:
    """Return rows of a given size, with an integer as the key."""
    return Shape(f"integer-{row_bytes}", partial(_make_rows, row_bytes, text_keys=False))


def text_shape(row_bytes: int) -> Shape:
    """Return rows of a given size, with a uuid in text form as the key."""
    return Shape(f"text-{row_bytes}", partial(_make_rows, row_bytes, text_keys=True))


def _make_rows(row_bytes: int, ids: Ids, rng: np.random.Generator, *, text_keys: bool) -> pa.Table:
    keys = uuid_texts(ids) if text_keys else pa.array(ids)
    width = row_bytes - (_UUID_BYTES if text_keys else _INTEGER_BYTES)
    digits = np.frombuffer(rng.bytes(len(ids) * width), dtype=np.uint8) & 0x7F  # seven bits: valid text
    offsets = np.arange(len(ids) + 1, dtype=np.int32) * width
    padding = pa.StringArray.from_buffers(len(ids), pa.py_buffer(offsets), pa.py_buffer(digits))
    schema = pa.schema([pa.field("id", keys.type, nullable=False), pa.field("padding", pa.string())])
    return pa.table([keys, padding], schema=schema)
