"""Decode sequences that CDC writers encode as text to unsigned parts, vectorized.

Text is never compared as text: "9" would be greater than "10".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_job.changelog.bad_rows import BadRows, RejectReason
from spark_job.columns.arrays import U64, Mask

SIGN_BIT = np.uint64(1 << 63)
_HEX_DIGITS = 16
_HEX_LENGTH = 2 * _HEX_DIGITS + 1
_NOT_HEX = 0xFF
_NIBBLE = np.full(256, _NOT_HEX, dtype=np.uint8)
_NIBBLE[np.frombuffer(b"0123456789abcdef", dtype=np.uint8)] = np.arange(16, dtype=np.uint8)
_NIBBLE[np.frombuffer(b"ABCDEF", dtype=np.uint8)] = np.arange(10, 16, dtype=np.uint8)
_DIGITS_PER_PART = 19  # decimal digits that fit into one part
PART_BASE = 10**_DIGITS_PER_PART


class SequenceEncoding(StrEnum):
    """How a sequence column encodes its numbers: the first two by its type, the others as text."""

    NUMBER = "of-type-number"
    DECIMAL = "of-type-decimal"
    HEX_PAIR = "etl-hex"  # Supabase ETL: {commit_lsn:016x}/{tx_ordinal:016x}
    DIGITS = "number"
    TIMESTAMP = "timestamp"
    POSTGRES_LSN = "postgres-lsn"
    POSTGRES_SEQUENCE = "postgres-sequence"
    BINLOG_FILE = "binlog-file"
    SQLSERVER_LSN = "sqlserver-lsn"


class MalformedText(ValueError):
    """Some values do not have the expected encoding. `decode_text` raises `BadRows` with their rows."""

    def __init__(self, malformed: Mask) -> None:
        super().__init__()
        self.indices = np.flatnonzero(malformed)


@dataclass(frozen=True, slots=True)
class TextEncoding:
    """A text encoding: an example for messages, the number of parts, and a decoder of values without NULL."""

    expected: str
    parts: int
    decode: Callable[[pa.Array], tuple[U64, ...]]


def _decode_hex_pairs(array: pa.Array) -> tuple[U64, ...]:
    """Decode `{commit_lsn:016x}/{tx_ordinal:016x}`."""
    count = len(array)
    if not count:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset : array.offset + count + 1]
    malformed = np.diff(offsets) != _HEX_LENGTH
    if not malformed.any():
        text = np.frombuffer(array.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]].reshape(count, -1)
        high, low = _NIBBLE[text[:, :_HEX_DIGITS]], _NIBBLE[text[:, _HEX_DIGITS + 1 :]]
        slash = text[:, _HEX_DIGITS] == ord("/")
        if slash.all() and high.max() != _NOT_HEX and low.max() != _NOT_HEX:
            return _pack(high), _pack(low)
        malformed = ~slash | (high == _NOT_HEX).any(axis=1) | (low == _NOT_HEX).any(axis=1)
    raise MalformedText(malformed)


def _pack(nibbles: NDArray[np.uint8]) -> U64:
    """Return one number for each row of 16 nibbles, the most significant first."""
    return ((nibbles[:, 0::2] << 4) | nibbles[:, 1::2]).view(">u8").astype(np.uint64)[:, 0]


def _match_pattern(array: pa.Array, pattern: str) -> pa.Array:
    """Return the named groups of a pattern; raise `MalformedText` unless every value matches as a whole."""
    groups = pc.extract_regex(array, f"^(?:{pattern})$")
    if groups.null_count:
        raise MalformedText(groups.is_null().to_numpy(zero_copy_only=False))
    return groups


def _hex_to_uint64(*groups: pa.Array) -> U64:
    """Return the concatenated hexadecimal digits of the groups as one number of 64 bits."""
    digits = (
        groups[0]
        if len(groups) == 1
        else pc.binary_join_element_wise(*groups, pa.scalar("", pa.large_string()))
    )
    return _pack(_NIBBLE[_characters(pc.utf8_lpad(digits, _HEX_DIGITS, "0").cast(pa.large_string()))])


def _characters(array: pa.Array) -> NDArray[np.uint8]:
    """Return the bytes of texts that all have as many characters as a part has hexadecimal digits."""
    count = len(array)
    if not count:
        return np.empty((0, _HEX_DIGITS), np.uint8)
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset : array.offset + count + 1]
    return np.frombuffer(array.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]].reshape(count, -1)


def _to_uint64(digits: pa.Array) -> U64:
    numbers: U64 = digits.cast(pa.uint64()).to_numpy(zero_copy_only=False)
    return numbers


def _decode_digits(array: pa.Array) -> tuple[U64, ...]:
    """Decode up to 38 decimal digits: Oracle's SCN, AR_H_CHANGE_SEQ of DMS."""
    padded = pc.utf8_lpad(_match_pattern(array, r"(?P<n>[0-9]{1,38})").field("n"), 2 * _DIGITS_PER_PART, "0")
    return (
        _to_uint64(pc.utf8_slice_codeunits(padded, 0, _DIGITS_PER_PART)),
        _to_uint64(pc.utf8_slice_codeunits(padded, _DIGITS_PER_PART, 2 * _DIGITS_PER_PART)),
    )


def _decode_timestamps(array: pa.Array) -> tuple[U64, ...]:
    """Decode timestamps by the writer's clock, to the microsecond."""
    _match_pattern(array, r"(?P<t>[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)")
    try:
        times = array.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        raise MalformedText(_failing_values(array, pa.timestamp("us"))) from None
    signed: NDArray[np.int64] = times.view(pa.int64()).to_numpy(zero_copy_only=False)
    return (signed.view(np.uint64) ^ SIGN_BIT,)


def _failing_values(array: pa.Array, target_type: pa.DataType) -> Mask:
    """Return which values cannot be cast; Arrow does not report them."""

    def fails(index: int) -> bool:
        try:
            array.slice(index, 1).cast(target_type)
        except pa.ArrowInvalid:
            return True
        return False

    return np.array([fails(index) for index in range(len(array))], dtype=np.bool_)


def _decode_postgres_lsns(array: pa.Array) -> tuple[U64, ...]:
    """Decode `16/B374D848`."""
    groups = _match_pattern(array, r"(?P<high>[0-9A-Fa-f]{1,8})/(?P<low>[0-9A-Fa-f]{1,8})")
    return (_hex_to_uint64(groups.field("high"), pc.utf8_lpad(groups.field("low"), 8, "0")),)


def _decode_postgres_sequences(array: pa.Array) -> tuple[U64, ...]:
    """Decode `["24023119","24023128"]`: LSNs of the last commit, which may be null, and of the change."""
    groups = _match_pattern(
        array, r'\[ *(?:"(?P<commit>[0-9]{1,19})"|null) *, *"(?P<change>[0-9]{1,19})" *\]'
    )
    commit = groups.field("commit")
    return _to_uint64(pc.if_else(pc.equal(commit, ""), "0", commit)), _to_uint64(groups.field("change"))


def _decode_binlog_files(array: pa.Array) -> tuple[U64, ...]:
    """Decode `mysql-bin.000003`: ordered by number. Another base name is another server, without a known order."""
    groups = _match_pattern(array, r"(?P<base>.+)\.(?P<number>[0-9]{1,19})")
    bases = pc.dictionary_encode(groups.field("base")).indices.to_numpy(zero_copy_only=False)
    if len(bases) and bases.max():
        raise MalformedText(bases > 0)
    return (_to_uint64(groups.field("number")),)


def _decode_sqlserver_lsns(array: pa.Array) -> tuple[U64, ...]:
    """Decode `00000027:00000ac0:0002`, 80 bits."""
    groups = _match_pattern(array, r"(?P<a>[0-9A-Fa-f]{8}):(?P<b>[0-9A-Fa-f]{8}):(?P<c>[0-9A-Fa-f]{4})")
    return _hex_to_uint64(groups.field("a"), groups.field("b")), _hex_to_uint64(groups.field("c"))


TEXT_ENCODINGS: Mapping[SequenceEncoding, TextEncoding] = {
    SequenceEncoding.HEX_PAIR: TextEncoding(
        "16 hex digits, slash, 16 hex digits",
        2,
        _decode_hex_pairs,
    ),
    SequenceEncoding.DIGITS: TextEncoding("a whole number of at most 38 digits", 2, _decode_digits),
    SequenceEncoding.TIMESTAMP: TextEncoding(
        "a timestamp such as 2017-11-16 22:31:08.123456", 1, _decode_timestamps
    ),
    SequenceEncoding.POSTGRES_LSN: TextEncoding("an LSN such as 16/B374D848", 1, _decode_postgres_lsns),
    SequenceEncoding.POSTGRES_SEQUENCE: TextEncoding(
        'two LSNs such as ["24023119","24023128"]', 2, _decode_postgres_sequences
    ),
    SequenceEncoding.BINLOG_FILE: TextEncoding(
        "the name of a binlog file such as mysql-bin.000003, with the same name in all rows of the file",
        1,
        _decode_binlog_files,
    ),
    SequenceEncoding.SQLSERVER_LSN: TextEncoding(
        "an LSN such as 00000027:00000ac0:0002", 2, _decode_sqlserver_lsns
    ),
}


def decode_text(
    array: pa.Array, encoding: SequenceEncoding, name: str, path: str, rows: NDArray[np.int64]
) -> tuple[U64, ...]:
    """Return the parts of text values; raise `BadRows` if some are malformed. `rows`: their rows in the file."""
    text_encoding = TEXT_ENCODINGS[encoding]
    try:
        return text_encoding.decode(array.cast(pa.large_string()))
    except MalformedText as error:
        bad_rows = rows[error.indices]
        raise BadRows(
            f"column {name} does not hold a sequence in row {int(bad_rows[0])}; expected {text_encoding.expected}",
            path,
            RejectReason.UNREADABLE_SEQUENCE,
            bad_rows,
        ) from None
