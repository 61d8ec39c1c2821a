"""A number for each row: equal rows have equal numbers, different ones differ but for a chance of 1 in 2⁶⁴.

Rows can so be compared by key range without holding them. NULL, empty and absent differ, as do −0.0 and 0.0; every
NaN is the same NaN.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_job.changelog.marker import Marker
from spark_job.key_index.keys import U64

_NULL = np.uint64(0x9AE16A3B2F90404F)
_ODD = np.uint64(0x9E3779B97F4A7C15)
UNCHANGED = np.uint64(
    0xC2B2AE3D27D4EB4F
)  # a number like any other, for values that only say that they are the same


def digest_rows(rows: pa.Table) -> U64:
    """One number for each row, over all columns."""
    total = np.zeros(rows.num_rows, dtype=np.uint64)
    for place, column in enumerate(rows.columns, 1):
        total += _at_place(digest_column(column), np.full(rows.num_rows, place, dtype=np.uint64))
    return _mix(total)


def digest_apart(rows: pa.Table, apart: Sequence[str], marker: Marker | None = None) -> U64:
    """For each row a number for each of some columns (`UNCHANGED`: it holds the marker), and one for the others."""
    digests = [digest_column(rows[name]) for name in apart]
    for name, digest in zip(apart, digests, strict=True):
        marked = None if marker is None else marker.marks(rows[name])
        if marked is not None:
            digest[marked] = UNCHANGED
    return np.column_stack([*digests, digest_rows(rows.drop_columns(list(apart)) if apart else rows)])


def differing_columns(here: pa.Table, there: pa.Table) -> list[str]:
    """The columns in which two tables of the same columns and as many rows differ."""
    return [
        name
        for name in here.column_names
        if not np.array_equal(digest_column(here[name]), digest_column(there[name]))
    ]


def digest_column(column: pa.ChunkedArray) -> U64:
    """One number for each value of a column."""
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
    """The numbers of the values; those of NULLs are anything."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _values(array.storage)
    if pa.types.is_struct(kind):
        return _struct(array)
    if pa.types.is_map(kind):
        pairs = _at_place(_digest(array.keys), np.uint64(1)) + _at_place(_digest(array.items), np.uint64(2))
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
    for place in range(array.type.num_fields):
        total += _at_place(_digest(array.field(place)), np.uint64(place + 1))
    return _mix(total)


def _lists(offsets: pa.Array, digests: U64) -> U64:
    """Of lists whose elements have these numbers: the order of the elements counts, and how many they are."""
    edges = offsets.to_numpy().astype(np.int64)
    length = np.diff(edges)
    inside = digests[edges[0] : edges[-1]]
    place = np.arange(len(inside)) - np.repeat(edges[:-1] - edges[0], length)
    before = np.concatenate(
        [np.zeros(1, np.uint64), np.cumsum(_at_place(inside, place.astype(np.uint64)), dtype=np.uint64)]
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
    """Text and bytes; each different value is hashed once."""
    encoded = pc.dictionary_encode(array)
    values = encoded.dictionary
    if not pa.types.is_fixed_size_binary(values.type):
        values = values.cast(pa.large_binary())
    digests = b"".join([hashlib.blake2b(value, digest_size=8).digest() for value in values.to_pylist()])
    numbers = np.frombuffer(digests, dtype="<u8").astype(np.uint64)
    indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    found: U64 = numbers[indices]
    return found


def _at_place(digests: U64, place: U64 | np.uint64) -> U64:
    return _mix(digests ^ (np.atleast_1d(place) * _ODD))


def _mix(numbers: U64) -> U64:
    """Spreads every bit over all others (the finaliser of SplitMix64)."""
    mixed = numbers + _ODD
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    spread: U64 = mixed ^ (mixed >> np.uint64(31))
    return spread
