"""How key columns become index keys: order-preserving where one column allows it, hashed otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
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
from spark_job.key_index.keys import U64, Keys

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
_SECOND_SEED = (
    0x9E3779B97F4A7C15  # any constant far from zero: the low half must be independent of the high one
)
DEFAULT_HASH_BITS = 96


class Encoding(StrEnum):
    """The three ways a key is stored."""

    ORDERED_64 = "ordered-64"
    ORDERED_128 = "ordered-128"
    HASHED = "hashed"


@dataclass(frozen=True, slots=True)
class KeyCodec:
    """Encodes the key columns of one table. The same columns give the same codec for ever."""

    encoding: Encoding
    hash_bits: int = DEFAULT_HASH_BITS

    @property
    def lossless(self) -> bool:
        """Two different keys never share a code."""
        return self.encoding is not Encoding.HASHED

    def encode(self, columns: Sequence[pa.Array]) -> Keys:
        """Codes of the rows whose key columns these are. NULLs must have been refused before."""
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
        high, low = _chain(values, 0), _chain(values, _SECOND_SEED)
        if self.hash_bits <= 64:
            return Keys(np.zeros_like(low), high & np.uint64((1 << self.hash_bits) - 1))
        return Keys(low & np.uint64((1 << (self.hash_bits - 64)) - 1), high)


def choose_codec(types: Sequence[IcebergType], hash_bits: int = DEFAULT_HASH_BITS) -> KeyCodec:
    """The codec for key columns of these types."""
    for key_type in types:
        if not isinstance(key_type, (*_LONG_LIKE, *_BINARY_LIKE, StringType, DecimalType)):
            raise Invalid(
                f"a column of type {key_type} cannot be a key: two equal values may differ in their bytes. "
                "Name other columns in primary_keys."
            )
    if len(types) == 1 and isinstance(types[0], _LONG_LIKE):
        return KeyCodec(Encoding.ORDERED_64)
    if len(types) == 1 and isinstance(types[0], UUIDType):
        return KeyCodec(Encoding.ORDERED_128)
    return KeyCodec(Encoding.HASHED, hash_bits)


def _as_long(column: pa.Array) -> NDArray[np.int64]:
    """Integers, dates, times, timestamps and booleans as the long that Iceberg stores."""
    kind = column.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.view(pa.int32())
    elif pa.types.is_temporal(kind):
        column = column.view(pa.int64())
    longs: NDArray[np.int64] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return longs


def _fixed_bytes(column: pa.Array) -> memoryview:
    """The bytes of a uuid or fixed column, values back to back."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    width = column.type.byte_width
    start = column.offset * width
    return memoryview(column.buffers()[1])[start : start + len(column) * width]


def _as_bytes(column: pa.Array) -> list[bytes]:
    """The canonical bytes of each value, which are what is hashed."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        column, kind = column.storage, column.storage.type
    if pa.types.is_decimal(kind):
        # Scale is fixed by the type, so the plain rendering is canonical; widening keeps the digits.
        column = pc.cast(column, pa.string())
        kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = column.cast(pa.large_binary() if pa.types.is_large_string(kind) else pa.binary())
    elif not (
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    ):
        raw = _as_long(column).astype("<i8").tobytes()
        return [raw[at : at + 8] for at in range(0, len(raw), 8)]
    values: list[bytes] = column.to_pylist()
    return values


def _chain(columns: list[list[bytes]], seed: int) -> U64:
    """XXH64 of each row, every column seeded with the digest of the one before."""
    digest = xxhash.xxh64_intdigest
    first, *rest = columns
    digests = [digest(value, seed) for value in first]
    for column in rest:
        digests = [digest(value, previous) for value, previous in zip(column, digests, strict=True)]
    return np.array(digests, dtype=np.uint64)
