"""Generates column values as arrays from uniform 64-bit numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bits = npt.NDArray[np.uint64]
Array = Any  # pyarrow ships no types

EDGE_DOUBLES = (float("nan"), -0.0, 0.0, float("inf"), float("-inf"), 5e-324, 1.7976931348623157e308)


def uniform_ints(bits: Bits, bound: int) -> npt.NDArray[np.int64]:
    """Return integers from 0 to bound − 1."""
    return (bits % np.uint64(bound)).astype(np.int64)


def random_mask(bits: Bits, odds: int) -> npt.NDArray[np.bool_]:
    """Return True for about one in `odds`; uses other bits than `uniform_ints`."""
    chosen: npt.NDArray[np.bool_] = ((bits >> np.uint64(40)) % np.uint64(odds)) == 0
    return chosen


def ints(values: npt.NDArray[np.int64], type_: Array, nulls: npt.NDArray[np.bool_] | None = None) -> Array:
    """Return numbers, dates, times or timestamps from their count of units."""
    width = pa.int32() if type_.bit_width == 32 else pa.int64()
    return pa.array(values, mask=nulls).cast(width).cast(type_)


def choices(values: Sequence[Any], bits: Bits) -> Array:
    """Return one of the values for each number; a value may be None."""
    return pa.array(values).take(pa.array(uniform_ints(bits, len(values))))


def labels(prefix: str, values: npt.NDArray[np.int64]) -> Array:
    """Return the prefix followed by each number."""
    return pc.binary_join_element_wise(prefix, pa.array(values).cast(pa.string()), "")


def decimals(unscaled: npt.NDArray[np.int64], precision: int, scale: int) -> Array:
    """Return exact decimals from integers: 150 at scale 2 is 1.50."""
    # Arrow keeps 128 bits, low half first; the high half repeats the sign.
    halves = np.stack([unscaled, unscaled >> 63], axis=1)
    buffer = pa.py_buffer(np.ascontiguousarray(halves).tobytes())
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(unscaled), [None, buffer])


def uuids(high: Bits, low: Bits, nulls: npt.NDArray[np.bool_] | None = None) -> Array:
    """Return UUIDs from their halves, most significant first."""
    halves = np.stack([high, low], axis=1).astype(">u8")
    bitmap = None
    if nulls is not None:
        bitmap = pa.py_buffer(np.packbits(~nulls, bitorder="little").tobytes())
    storage = pa.Array.from_buffers(pa.binary(16), len(high), [bitmap, pa.py_buffer(halves.tobytes())])
    return pa.ExtensionArray.from_storage(pa.uuid(), storage)


def doubles(bits: Bits) -> Array:
    """Return doubles, including NaN, −0.0, infinities, extremes and NULL."""
    values = uniform_ints(bits, 2_000_001) / 1000.0 - 1000.0
    edges = random_mask(bits, 5)
    values[edges] = np.array(EDGE_DOUBLES)[uniform_ints(bits[edges] >> np.uint64(8), len(EDGE_DOUBLES))]
    return pa.array(values, mask=random_mask(bits >> np.uint64(5), 11))


def binaries(bits: Bits, longest: int) -> Array:
    """Return byte strings of 0 to `longest` bytes of the input; some NULL."""
    lengths = uniform_ints(bits, longest + 1)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    pool = np.resize(bits.view(np.uint8), int(offsets[-1]))
    content = pa.Array.from_buffers(
        pa.binary(), len(bits), [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(pool.tobytes())]
    )
    return pc.if_else(pa.array(random_mask(bits, 13)), pa.scalar(None, pa.binary()), content)


def lists(bits: Bits, elements: Array, longest: int) -> Array:
    """Return lists of 0 to `longest` consecutive `elements`; some NULL."""
    lengths = uniform_ints(bits, longest + 1)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    starts = uniform_ints(bits >> np.uint64(11), len(elements))
    offset_in_list = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    values = elements.take(pa.array((np.repeat(starts, lengths) + offset_in_list) % len(elements)))
    # A NULL among the offsets makes the list that begins there NULL.
    nulls = np.append(random_mask(bits, 17), False)
    nulls[:-1] &= lengths == 0
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32), mask=nulls), values)
