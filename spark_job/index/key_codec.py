"""Encodes key columns as index keys: order-preserving for one integer-like or uuid column, hashed otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from icemirror.errors import Invalid
from spark_job.columns.arrays import U64
from spark_job.index.keys import Keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONG_LIKE = (
    IntegerType,
    LongType,
    BooleanType,
    DateType,
    TimeType,
    TimestampType,
    TimestamptzType,
    TimestampNanoType,
    TimestamptzNanoType,
)
_BINARY_LIKE = (UUIDType, FixedType, BinaryType)
_SIGN_BIT = np.uint64(1 << 63)
_LENGTH_BYTES = 8
DEFAULT_HASH_BITS = 96


class Encoding(StrEnum):
    """How a key is stored."""

    ORDERED_64 = "ordered-64"
    ORDERED_128 = "ordered-128"
    HASHED = "hashed"


@dataclass(frozen=True, slots=True)
class KeyCodec:
    """Encodes the key columns of one table. The same column types give the same codec in every version."""

    encoding: Encoding
    hash_bits: int = DEFAULT_HASH_BITS
    salt: bytes = b""

    def with_salt(self, mirror_uuid: UUID) -> KeyCodec:
        """Return the codec of one mirror. Its uuid is a salt, so keys that collide cannot be constructed without it."""
        return self if self.is_lossless else replace(self, salt=mirror_uuid.bytes)

    @property
    def is_wide(self) -> bool:
        """Return whether codes have two halves of 64 bits."""
        return self.encoding is not Encoding.ORDERED_64

    @property
    def is_lossless(self) -> bool:
        """Return whether two different keys always have different codes."""
        return self.encoding is not Encoding.HASHED

    def encode(self, columns: Sequence[pa.Array]) -> Keys:
        """Return the codes of rows with these key columns. The caller has rejected NULLs."""
        match self.encoding:
            case Encoding.ORDERED_64:
                return Keys(_as_long(columns[0]).view(np.uint64) ^ _SIGN_BIT)
            case Encoding.ORDERED_128:
                halves = np.frombuffer(_fixed_bytes(columns[0]), dtype=">u8").reshape(-1, 2)
                return Keys(halves[:, 1].astype(np.uint64), halves[:, 0].astype(np.uint64))
            case Encoding.HASHED:
                return self._hash(columns)

    def _hash(self, columns: Sequence[pa.Array]) -> Keys:
        values = [_as_bytes(column) for column in columns]
        digests = _digest(_join_columns(values) if len(values) > 1 else values[0], self.salt)
        high, low = digests[:, 0], digests[:, 1]
        if self.hash_bits <= 64:
            return Keys(np.zeros_like(low), high & np.uint64((1 << self.hash_bits) - 1))
        return Keys(low & np.uint64((1 << (self.hash_bits - 64)) - 1), high)


def choose_codec(types: Sequence[IcebergType], hash_bits: int = DEFAULT_HASH_BITS) -> KeyCodec:
    """Return the codec for key columns of these types."""
    for key_type in types:
        if not isinstance(key_type, (*_LONG_LIKE, *_BINARY_LIKE, StringType, DecimalType)):
            raise Invalid(
                f"equal values of type {key_type} may differ in their bytes. Name other columns in primary_keys."
            )
    if len(types) == 1 and isinstance(types[0], _LONG_LIKE):
        return KeyCodec(Encoding.ORDERED_64)
    if len(types) == 1 and isinstance(types[0], UUIDType):
        return KeyCodec(Encoding.ORDERED_128)
    return KeyCodec(Encoding.HASHED, hash_bits)


def _as_long(column: pa.Array) -> NDArray[np.int64]:
    """Return integers, dates, times, timestamps and booleans as the long that Iceberg stores."""
    arrow_type = column.type
    if pa.types.is_date32(arrow_type) or pa.types.is_time32(arrow_type):
        column = column.view(pa.int32())
    elif pa.types.is_temporal(arrow_type):
        column = column.view(pa.int64())
    longs: NDArray[np.int64] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return longs


def _fixed_bytes(column: pa.Array) -> memoryview:
    """Return the bytes of a uuid or fixed column, values back to back."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    width = column.type.byte_width
    start = column.offset * width
    return memoryview(column.buffers()[1])[start : start + len(column) * width]


def _as_bytes(column: pa.Array) -> list[bytes]:
    """Return the canonical bytes of each value. These are hashed."""
    arrow_type = column.type
    if isinstance(arrow_type, pa.BaseExtensionType):
        column, arrow_type = column.storage, column.storage.type
    if pa.types.is_decimal(arrow_type):
        # The type fixes the scale, so the decimal text is canonical. A wider precision keeps the digits.
        column = pc.cast(column, pa.string())
        arrow_type = column.type
    if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type):
        column = column.cast(pa.large_binary() if pa.types.is_large_string(arrow_type) else pa.binary())
    elif not (
        pa.types.is_binary(arrow_type)
        or pa.types.is_large_binary(arrow_type)
        or pa.types.is_fixed_size_binary(arrow_type)
    ):
        raw = _as_long(column).astype("<i8").tobytes()
        return [raw[offset : offset + 8] for offset in range(0, len(raw), 8)]
    values: list[bytes] = column.to_pylist()
    return values


def _join_columns(columns: list[list[bytes]]) -> list[bytes]:
    """Concatenate the columns of each row, each value after its length: ("ab", "c") differs from ("a", "bc").

    │ length, 8 bytes LE │ value │ length │ value │ …
    """
    return [
        b"".join([len(value).to_bytes(_LENGTH_BYTES, "little") + value for value in row])
        for row in zip(*columns, strict=True)
    ]


def _digest(values: list[bytes], salt: bytes) -> U64:
    """Return the BLAKE2b digest of each value as two numbers."""
    blake = hashlib.blake2b
    digests = b"".join([blake(value, digest_size=16, salt=salt).digest() for value in values])
    return np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
