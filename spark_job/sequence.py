"""The order of events: sequence columns as unsigned parts, compared left to right as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.types import (
    DateType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from icemirror.errors import Invalid

U64 = NDArray[np.uint64]
_SIGN_BIT = np.uint64(1 << 63)
_HEX_DIGITS = 16
_HEX_LENGTH = 2 * _HEX_DIGITS + 1
_NOT_HEX = 0xFF
_NIBBLE = np.full(256, _NOT_HEX, dtype=np.uint8)
_NIBBLE[np.frombuffer(b"0123456789abcdef", dtype=np.uint8)] = np.arange(16, dtype=np.uint8)
_NIBBLE[np.frombuffer(b"ABCDEF", dtype=np.uint8)] = np.arange(10, 16, dtype=np.uint8)


class Form(StrEnum):
    """How a sequence column writes its numbers."""

    NUMBER = "number"
    HEX_PAIR = "hex-pair"  # Supabase ETL: {commit_lsn:016x}/{tx_ordinal:016x}


@dataclass(frozen=True, slots=True)
class SequenceColumn:
    """One sequence column."""

    field_id: int
    name: str
    form: Form


@dataclass(frozen=True, slots=True)
class SequenceCodec:
    """Turns sequence columns into unsigned parts, most significant first."""

    columns: tuple[SequenceColumn, ...]

    @property
    def field_ids(self) -> tuple[int, ...]:
        """The columns it reads."""
        return tuple(column.field_id for column in self.columns)

    @property
    def parts(self) -> int:
        """How many unsigned parts an event's sequence has."""
        return sum(2 if column.form is Form.HEX_PAIR else 1 for column in self.columns)

    def encode(self, arrays: Sequence[pa.Array], file: str) -> U64:
        """One row of parts for each event; `file` is named where a value cannot be used."""
        parts: list[U64] = []
        for column, array in zip(self.columns, arrays, strict=True):
            if array.null_count:
                row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
                raise Invalid(
                    f"{file}: {column.name} is NULL in row {row}: an event without a sequence has no place in the order"
                )
            match column.form:
                case Form.NUMBER:
                    parts.append(_numbers(array))
                case Form.HEX_PAIR:
                    parts.extend(_hex_pairs(array, column.name, file))
        return np.stack(parts, axis=1) if parts else np.empty((0, 0), dtype=np.uint64)


def choose_sequence(columns: Sequence[NestedField]) -> SequenceCodec:
    """The codec for sequence columns of these types."""
    chosen: list[SequenceColumn] = []
    for column in columns:
        match column.field_type:
            case IntegerType() | LongType() | DateType():
                form = Form.NUMBER
            case TimestampType() | TimestamptzType() | TimestampNanoType() | TimestamptzNanoType():
                form = Form.NUMBER
            case StringType():
                form = Form.HEX_PAIR
            case other:
                raise Invalid(
                    f"column {column.name} of type {other} cannot be a sequence: "
                    "use integers, dates, timestamps, or strings of 16 hex digits, slash, 16 hex digits"
                )
        chosen.append(SequenceColumn(column.field_id, column.name, form))
    return SequenceCodec(tuple(chosen))


def _numbers(array: pa.Array) -> U64:
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_temporal(array.type):
        array = array.view(pa.int64())
    signed: NDArray[np.int64] = array.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return signed.view(np.uint64) ^ _SIGN_BIT


def _hex_pairs(array: pa.Array, name: str, file: str) -> tuple[U64, U64]:
    """`{commit_lsn:016x}/{tx_ordinal:016x}`, all values at once."""
    array = array.cast(pa.large_string())
    count = len(array)
    if not count:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset : array.offset + count + 1]
    wrong = np.diff(offsets) != _HEX_LENGTH
    if not wrong.any():
        text = np.frombuffer(array.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]].reshape(count, -1)
        high, low = _NIBBLE[text[:, :_HEX_DIGITS]], _NIBBLE[text[:, _HEX_DIGITS + 1 :]]
        slash = text[:, _HEX_DIGITS] == ord("/")
        if slash.all() and high.max() != _NOT_HEX and low.max() != _NOT_HEX:
            return _pack(high), _pack(low)
        wrong = ~slash | (high == _NOT_HEX).any(axis=1) | (low == _NOT_HEX).any(axis=1)
    row = int(np.flatnonzero(wrong)[0])
    raise Invalid(
        f"{file}: {name} in row {row} is not of the form 16 hex digits, slash, 16 hex digits, "
        "as every sequence in a column of type string must be"
    )


def _pack(nibbles: NDArray[np.uint8]) -> U64:
    return ((nibbles[:, 0::2] << 4) | nibbles[:, 1::2]).view(">u8").astype(np.uint64)[:, 0]
