"""Hashes rows to 64 bits: equal rows have equal hashes, different rows collide with a probability of 1 in 2⁶⁴.

So rows can be compared by key range without keeping them in memory. NULL, empty and absent differ, as do −0.0 and
0.0; every NaN is equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_job.changelog.unchanged_placeholder import UnchangedPlaceholder
from spark_job.index.keys import U64

_NULL = np.uint64(0x9AE16A3B2F90404F)
_ODD = np.uint64(0x9E3779B97F4A7C15)
UNCHANGED = np.uint64(0xC2B2AE3D27D4EB4F)  # the hash of a value that is marked as unchanged


def digest_rows(rows: pa.Table) -> U64:
    """Hash each row over all columns."""
    total = np.zeros(rows.num_rows, dtype=np.uint64)
    for position, column in enumerate(rows.columns, 1):
        total += _at_position(digest_column(column), np.full(rows.num_rows, position, dtype=np.uint64))
    return _mix(total)


def digest_separately(
    rows: pa.Table, separate: Sequence[str], marker: UnchangedPlaceholder | None = None
) -> U64:
    """Hash these columns separately (`UNCHANGED` where a value is the marker), and all others together."""
    digests = [digest_column(rows[name]) for name in separate]
    for name, digest in zip(separate, digests, strict=True):
        marked = None if marker is None else marker.find(rows[name])
        if marked is not None:
            digest[marked] = UNCHANGED
    return np.column_stack([*digests, digest_rows(rows.drop_columns(list(separate)) if separate else rows)])


def differing_columns(here: pa.Table, there: pa.Table) -> list[str]:
    """Return the columns in which two tables with the same columns and number of rows differ."""
    return [
        name
        for name in here.column_names
        if not np.array_equal(digest_column(here[name]), digest_column(there[name]))
    ]


def digest_column(column: pa.ChunkedArray) -> U64:
    """Hash each value of a column."""
    parts = [_digest(chunk) for chunk in column.chunks]
    return np.concatenate([np.empty(0, dtype=np.uint64), *parts])


def _digest(array: pa.Array) -> U64:
    if array.null_count == len(array):
        return np.full(len(array), _NULL)
    digests = _values(array)
    if array.null_count:
        digests[array.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return digests


def _values(array: pa.Array) -> U64:
    """Hash the values; the hashes of NULLs are undefined."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _values(array.storage)
    if pa.types.is_struct(kind):
        return _struct(array)
    if pa.types.is_map(kind):
        pairs = _at_position(_digest(array.keys), np.uint64(1)) + _at_position(
            _digest(array.items), np.uint64(2)
        )
        return _lists(array.offsets, pairs)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(array.offsets, _digest(array.values))
    if pa.types.is_decimal(kind):
        return _bytes(array.cast(pa.string()))
    if pa.types.is_primitive(kind):
        return _mix(_numbers(array))
    return _bytes(array)


def _struct(array: pa.Array) -> U64:
    total = np.zeros(len(array), dtype=np.uint64)
    for position in range(array.type.num_fields):
        total += _at_position(_digest(array.field(position)), np.uint64(position + 1))
    return _mix(total)


def _lists(offsets: pa.Array, digests: U64) -> U64:
    """Hash lists from the hashes of their elements; order and number of the elements count."""
    edges = offsets.to_numpy().astype(np.int64)
    length = np.diff(edges)
    inside = digests[edges[0] : edges[-1]]
    position = np.arange(len(inside)) - np.repeat(edges[:-1] - edges[0], length)
    before = np.concatenate(
        [np.zeros(1, np.uint64), np.cumsum(_at_position(inside, position.astype(np.uint64)), dtype=np.uint64)]
    )
    total: U64 = before[edges[1:] - edges[0]] - before[edges[:-1] - edges[0]]
    return _mix(total + length.astype(np.uint64))


def _numbers(array: pa.Array) -> U64:
    if pa.types.is_floating(array.type):
        floats = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
        floats[np.isnan(floats)] = np.nan
        bits: U64 = floats.view(np.uint64)
        return bits
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    signed = array.fill_null(False if pa.types.is_boolean(array.type) else 0).cast(pa.int64())
    numbers: U64 = signed.to_numpy(zero_copy_only=False).view(np.uint64)
    return numbers


def _bytes(array: pa.Array) -> U64:
    """Hash text and bytes; each distinct value is hashed once."""
    encoded = pc.dictionary_encode(array)
    values = encoded.dictionary
    if not pa.types.is_fixed_size_binary(values.type):
        values = values.cast(pa.large_binary())
    digests = b"".join([hashlib.blake2b(value, digest_size=8).digest() for value in values.to_pylist()])
    numbers = np.frombuffer(digests, dtype="<u8").astype(np.uint64)
    indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    found: U64 = numbers[indices]
    return found


def _at_position(digests: U64, position: U64 | np.uint64) -> U64:
    return _mix(digests ^ (np.atleast_1d(position) * _ODD))


def _mix(numbers: U64) -> U64:
    """Spread every bit over all others (the finaliser of SplitMix64)."""
    mixed = numbers + _ODD
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    spread: U64 = mixed ^ (mixed >> np.uint64(31))
    return spread
