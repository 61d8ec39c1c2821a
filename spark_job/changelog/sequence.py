"""Encode sequence columns as unsigned parts, which are compared left to right as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.types import (
    DateType,
    DecimalType,
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
from spark_job.changelog.bad_rows import BadRows, RejectReason
from spark_job.changelog.sequence_text import SIGN_BIT, TEXT_ENCODINGS, SequenceEncoding, decode_text
from spark_job.columns.arrays import U64

_PARTS = {
    SequenceEncoding.NUMBER: 1,
    SequenceEncoding.DECIMAL: 2,
    **{encoding: text.parts for encoding, text in TEXT_ENCODINGS.items()},
}


@dataclass(frozen=True, slots=True)
class SequenceColumn:
    """One sequence column."""

    field_id: int
    name: str
    encoding: SequenceEncoding

    @property
    def parts(self) -> int:
        """The number of unsigned parts of a value."""
        return _PARTS[self.encoding]


@dataclass(frozen=True, slots=True)
class SequenceCodec:
    """Encodes sequence columns as unsigned parts, most significant first."""

    columns: tuple[SequenceColumn, ...]

    @property
    def field_ids(self) -> tuple[int, ...]:
        """The field ids of the columns."""
        return tuple(column.field_id for column in self.columns)

    @property
    def parts(self) -> int:
        """The number of unsigned parts of an event's sequence."""
        return sum(column.parts for column in self.columns)

    def encode(
        self,
        arrays: Sequence[pa.Array],
        path: str,
        null_is_lowest: NDArray[np.bool_] | None = None,
        rows: NDArray[np.int64] | None = None,
    ) -> U64:
        """Return one row of parts per event; error messages name `path`.

        `null_is_lowest`: events for which NULL is the lowest value instead of an error. `rows`: their rows in the file.
        """
        parts: list[U64] = []
        for column, array in zip(self.columns, arrays, strict=True):
            if array.null_count:
                parts.extend(_encode_with_nulls(column, array, path, null_is_lowest, rows))
            else:
                parts.extend(_encode_column(column, array, path, rows))
        return np.stack(parts, axis=1) if parts else np.empty((0, 0), dtype=np.uint64)


def choose_sequence(
    columns: Sequence[NestedField], text_encodings: Mapping[str, SequenceEncoding] | None = None
) -> SequenceCodec:
    """Return the codec for sequence columns; the default of text is the encoding of Supabase ETL."""
    chosen: list[SequenceColumn] = []
    for column in columns:
        match column.field_type:
            case IntegerType() | LongType() | DateType():
                encoding = SequenceEncoding.NUMBER
            case TimestampType() | TimestamptzType() | TimestampNanoType() | TimestamptzNanoType():
                encoding = SequenceEncoding.NUMBER
            case DecimalType():
                encoding = SequenceEncoding.DECIMAL
            case StringType():
                encoding = (text_encodings or {}).get(column.name, SequenceEncoding.HEX_PAIR)
            case unsupported:
                raise Invalid(
                    f"column {column.name} of type {unsupported} cannot be a sequence: "
                    "use integers, decimals, dates, timestamps, or strings of 16 hex digits, slash, 16 hex digits, or "
                    "of another sequence_format"
                )
        chosen.append(SequenceColumn(column.field_id, column.name, encoding))
    return SequenceCodec(tuple(chosen))


def _encode_with_nulls(
    column: SequenceColumn,
    array: pa.Array,
    path: str,
    null_is_lowest: NDArray[np.bool_] | None,
    rows: NDArray[np.int64] | None,
) -> list[U64]:
    null: NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    bad = np.flatnonzero(null if null_is_lowest is None else null & ~null_is_lowest)
    if len(bad):
        bad_rows = bad if rows is None else rows[bad]
        raise BadRows(
            f"{column.name} is NULL in row {int(bad_rows[0])}, so the event has no order",
            path,
            RejectReason.NULL_SEQUENCE,
            bad_rows,
        )
    valid = np.flatnonzero(~null)
    encoded = _encode_column(column, array.drop_null(), path, valid if rows is None else rows[valid])
    parts: list[U64] = []
    for values in encoded:
        parts.append(np.zeros(len(array), dtype=np.uint64))
        parts[-1][valid] = values
    return parts


def _encode_column(
    column: SequenceColumn, array: pa.Array, path: str, rows: NDArray[np.int64] | None
) -> tuple[U64, ...]:
    match column.encoding:
        case SequenceEncoding.NUMBER:
            return (_encode_numbers(array),)
        case SequenceEncoding.DECIMAL:
            return _encode_decimals(array)
        case encoding:
            return decode_text(
                array, encoding, column.name, path, np.arange(len(array)) if rows is None else rows
            )


def _encode_numbers(array: pa.Array) -> U64:
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_temporal(array.type):
        array = array.view(pa.int64())
    signed: NDArray[np.int64] = array.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return signed.view(np.uint64) ^ SIGN_BIT


def _encode_decimals(array: pa.Array) -> tuple[U64, ...]:
    """Return the high and low halves of the unscaled numbers: all values of a column have the same scale."""
    if not len(array):
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    wide = array.cast(pa.decimal128(38, array.type.scale))
    halves = np.frombuffer(wide.buffers()[1], dtype="<u8").reshape(-1, 2)[
        wide.offset : wide.offset + len(wide)
    ]
    low, high = halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64)
    return high ^ SIGN_BIT, low
