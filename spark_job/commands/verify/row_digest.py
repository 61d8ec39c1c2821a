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
from spark_job.columns.arrays import U64

_NULL = np.uint64(0x9AE16A3B2F90404F)
_ODD = np.uint64(0x9E3779B97F4A7C15)
UNCHANGED = np.uint64(0xC2B2AE3D27D4EB4F)  # the hash of a value that is marked as unchanged


def digest_rows(rows: pa.Table) -> U64:
    """Return a hash of each row over all columns."""
    total = np.zeros(rows.num_rows, dtype=np.uint64)
    for position, column in enumerate(rows.columns, 1):
        total += _at_position(digest_column(column), np.full(rows.num_rows, position, dtype=np.uint64))
    return _mix(total)


def digest_separately(
    rows: pa.Table, separate_columns: Sequence[str], placeholder: UnchangedPlaceholder | None = None
) -> U64:
    """Return a hash of each of these columns (`UNCHANGED` for the placeholder), and one of all others together."""
    digests = [digest_column(rows[name]) for name in separate_columns]
    for name, digest in zip(separate_columns, digests, strict=True):
        is_unchanged = None if placeholder is None else placeholder.find(rows[name])
        if is_unchanged is not None:
            digest[is_unchanged] = UNCHANGED
    return np.column_stack(
        [*digests, digest_rows(rows.drop_columns(list(separate_columns)) if separate_columns else rows)]
    )


def differing_columns(left: pa.Table, right: pa.Table) -> list[str]:
    """Return the columns in which two tables with the same columns and number of rows differ."""
    return [
        name
        for name in left.column_names
        if not np.array_equal(digest_column(left[name]), digest_column(right[name]))
    ]


def digest_column(column: pa.ChunkedArray) -> U64:
    """Return a hash of each value of a column."""
    chunk_digests = [_digest_array(chunk) for chunk in column.chunks]
    return np.concatenate([np.empty(0, dtype=np.uint64), *chunk_digests])


def _digest_array(array: pa.Array) -> U64:
    if array.null_count == len(array):
        return np.full(len(array), _NULL)
    digests = _digest_values(array)
    if array.null_count:
        digests[array.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return digests


def _digest_values(array: pa.Array) -> U64:
    """Return a hash of each value; those of NULLs are undefined."""
    arrow_type = array.type
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _digest_values(array.storage)
    if pa.types.is_struct(arrow_type):
        return _digest_structs(array)
    if pa.types.is_map(arrow_type):
        pairs = _at_position(_digest_array(array.keys), np.uint64(1)) + _at_position(
            _digest_array(array.items), np.uint64(2)
        )
        return _digest_lists(array.offsets, pairs)
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return _digest_lists(array.offsets, _digest_array(array.values))
    if pa.types.is_decimal(arrow_type):
        return _digest_bytes(array.cast(pa.string()))
    if pa.types.is_primitive(arrow_type):
        return _mix(_to_integers(array))
    return _digest_bytes(array)


def _digest_structs(array: pa.Array) -> U64:
    total = np.zeros(len(array), dtype=np.uint64)
    for position in range(array.type.num_fields):
        total += _at_position(_digest_array(array.field(position)), np.uint64(position + 1))
    return _mix(total)


def _digest_lists(offsets: pa.Array, digests: U64) -> U64:
    """Return a hash of each list from the hashes of its elements; their order and number count."""
    list_edges = offsets.to_numpy().astype(np.int64)
    length = np.diff(list_edges)
    element_digests = digests[list_edges[0] : list_edges[-1]]
    position = np.arange(len(element_digests)) - np.repeat(list_edges[:-1] - list_edges[0], length)
    running_total = np.concatenate(
        [
            np.zeros(1, np.uint64),
            np.cumsum(_at_position(element_digests, position.astype(np.uint64)), dtype=np.uint64),
        ]
    )
    total: U64 = (
        running_total[list_edges[1:] - list_edges[0]] - running_total[list_edges[:-1] - list_edges[0]]
    )
    return _mix(total + length.astype(np.uint64))


def _to_integers(array: pa.Array) -> U64:
    if pa.types.is_floating(array.type):
        floats = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
        floats[np.isnan(floats)] = np.nan
        bits: U64 = floats.view(np.uint64)
        return bits
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    signed = array.fill_null(False if pa.types.is_boolean(array.type) else 0).cast(pa.int64())
    unsigned: U64 = signed.to_numpy(zero_copy_only=False).view(np.uint64)
    return unsigned


def _digest_bytes(array: pa.Array) -> U64:
    """Return a hash of each text or bytes; each distinct value is hashed once."""
    encoded = pc.dictionary_encode(array)
    values = encoded.dictionary
    if not pa.types.is_fixed_size_binary(values.type):
        values = values.cast(pa.large_binary())
    digests = b"".join([hashlib.blake2b(value, digest_size=8).digest() for value in values.to_pylist()])
    distinct_digests = np.frombuffer(digests, dtype="<u8").astype(np.uint64)
    indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    digests_by_row: U64 = distinct_digests[indices]
    return digests_by_row


def _at_position(digests: U64, position: U64 | np.uint64) -> U64:
    return _mix(digests ^ (np.atleast_1d(position) * _ODD))


def _mix(numbers: U64) -> U64:
    """Return the numbers with every bit spread over all others (the finaliser of SplitMix64)."""
    mixed = numbers + _ODD
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    spread: U64 = mixed ^ (mixed >> np.uint64(31))
    return spread
