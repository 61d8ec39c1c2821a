from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from icemirror.errors import Invalid
from spark_job.index.key_codec import DEFAULT_HASH_BITS, Encoding, KeyCodec, choose_codec
from tests.unit.spark_job.index.samples import plain

MIN_LONG, MAX_LONG = -(2**63), 2**63 - 1
MIN_INT, MAX_INT = -(2**31), 2**31 - 1
_MICROS = (-62_135_596_800_000_000, -1, 0, 1, 253_402_300_799_999_999)

# Ascending values of every type that keeps its order, as the integers that Iceberg stores.
ORDERED: dict[str, tuple[IcebergType, Sequence[int]]] = {
    "int": (IntegerType(), (MIN_INT, MIN_INT + 1, -1, 0, 1, MAX_INT - 1, MAX_INT)),
    "long": (LongType(), (MIN_LONG, MIN_LONG + 1, -(2**32), -1, 0, 1, 2**53 + 1, MAX_LONG - 1, MAX_LONG)),
    "boolean": (BooleanType(), (False, True)),
    "date": (DateType(), (-719_162, -1, 0, 1, 2_932_896)),
    "time": (TimeType(), (0, 1, 86_399_999_999)),
    "timestamp": (TimestampType(), _MICROS),
    "timestamptz": (TimestamptzType(), _MICROS),
    "timestamp_ns": (TimestampNanoType(), (MIN_LONG + 1, -1, 0, 1, MAX_LONG)),
    "timestamptz_ns": (TimestamptzNanoType(), (MIN_LONG + 1, -1, 0, 1, MAX_LONG)),
}


def arrow_array(kind: IcebergType, values: Sequence[Any]) -> pa.Array:
    """Return values in the Arrow type that a reader of an Iceberg file returns."""
    return pa.array(values, schema_to_pyarrow(Schema(NestedField(1, "k", kind, required=True))).field(0).type)


def codes(kinds: Sequence[IcebergType], *columns: Sequence[Any], hash_bits: int = 96) -> list[int]:
    """Return the codes of rows given as columns."""
    arrays = [arrow_array(kind, values) for kind, values in zip(kinds, columns, strict=True)]
    return plain(choose_codec(kinds, hash_bits).encode(arrays))


def hash_as_documented(row: Sequence[bytes]) -> int:
    """Hash one row with the algorithm of docs/reference/key-index.md."""
    message = row[0] if len(row) == 1 else b"".join(len(value).to_bytes(8, "little") + value for value in row)
    digest = hashlib.blake2b(message, digest_size=16).digest()
    high, low = (int.from_bytes(half, "little") for half in (digest[:8], digest[8:]))
    return (high << 64) | (low & 0xFFFFFFFF)


@pytest.mark.parametrize("name", ORDERED)
def test_single_integer_like_column_keeps_its_order(name: str) -> None:
    kind, values = ORDERED[name]
    assert choose_codec([kind]).encoding is Encoding.ORDERED_64
    assert codes([kind], values) == [value + 2**63 for value in values]


def test_least_and_greatest_long_are_the_limits_of_the_range() -> None:
    assert codes([LongType()], [MIN_LONG, MAX_LONG]) == [0, 2**64 - 1]


def test_int_and_the_widened_long_have_the_same_code() -> None:
    ints = choose_codec([IntegerType()]).encode([pa.array([MIN_INT, -1, MAX_INT], pa.int32())])
    longs = choose_codec([LongType()]).encode([pa.array([MIN_INT, -1, MAX_INT], pa.int64())])
    assert plain(ints) == plain(longs)


@given(st.lists(st.integers(MIN_LONG, MAX_LONG), min_size=1, max_size=30))
def test_codes_of_longs_have_the_order_of_the_longs(values: list[int]) -> None:
    encoded = codes([LongType()], values)
    assert sorted(encoded) == codes([LongType()], sorted(values))
    assert len(set(encoded)) == len(set(values))


def test_uuid_keeps_all_its_bits_and_its_order() -> None:
    numbers = [0, 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 2**127, 2**128 - 1]
    encoded = codes([UUIDType()], [number.to_bytes(16, "big") for number in numbers])
    assert choose_codec([UUIDType()]).encoding is Encoding.ORDERED_128
    assert encoded == numbers


def test_sequential_uuids_with_the_same_high_half_stay_adjacent() -> None:
    start = 0x0192_F0C1_7E9A_7ABC_8000_0000_0000_0000
    encoded = codes([UUIDType()], [(start + step).to_bytes(16, "big") for step in range(5)])
    assert encoded == list(range(start, start + 5))


@pytest.mark.parametrize("extension", [True, False])
def test_array_slice_of_uuids_encodes_only_its_rows(extension: bool) -> None:
    values = [number.to_bytes(16, "big") for number in range(100, 110)]
    array = arrow_array(UUIDType(), values)
    array = array if extension else array.storage
    assert plain(choose_codec([UUIDType()]).encode([array.slice(3, 4)])) == [103, 104, 105, 106]


@pytest.mark.parametrize("name", ORDERED)
def test_array_slice_of_integers_encodes_only_its_rows(name: str) -> None:
    kind, values = ORDERED[name]
    whole = arrow_array(kind, [*values, *values, *values])
    sliced = choose_codec([kind]).encode([whole.slice(1, len(values))])
    assert plain(sliced) == codes([kind], [*values[1:], values[0]])


def test_zero_rows_give_zero_codes() -> None:
    for kind in (LongType(), UUIDType(), StringType(), DecimalType(9, 2), FixedType(3), DateType()):
        assert codes([kind], []) == []
    assert codes([StringType(), LongType()], [], []) == []


@pytest.mark.parametrize(
    ("kind", "value", "canonical"),
    [
        (StringType(), "", b""),
        (StringType(), "a\u0000é🎁", "a\u0000é🎁".encode()),
        (BinaryType(), b"\x00\xff", b"\x00\xff"),
        (FixedType(3), b"\x00\x01\xff", b"\x00\x01\xff"),
        (DecimalType(9, 2), Decimal("-1.50"), b"-1.50"),
        (DecimalType(38, 10), Decimal(0), b"0E-10"),
        (DecimalType(9, 0), Decimal(12), b"12"),
    ],
)
def test_single_column_is_hashed_as_documented(kind: IcebergType, value: Any, canonical: bytes) -> None:
    assert choose_codec([kind]) == KeyCodec(Encoding.HASHED, DEFAULT_HASH_BITS)
    assert codes([kind], [value]) == [hash_as_documented([canonical])]


def test_composite_key_is_hashed_as_documented_for_every_type() -> None:
    row: list[tuple[IcebergType, Any, bytes]] = [
        (LongType(), -2, (-2).to_bytes(8, "little", signed=True)),
        (IntegerType(), 7, (7).to_bytes(8, "little")),
        (BooleanType(), True, (1).to_bytes(8, "little")),
        (DateType(), dt.date(1970, 1, 3), (2).to_bytes(8, "little")),
        (TimeType(), dt.time(0, 0, 1), (1_000_000).to_bytes(8, "little")),
        (TimestampType(), -1, (-1).to_bytes(8, "little", signed=True)),
        (UUIDType(), bytes(range(16)), bytes(range(16))),
        (StringType(), "x", b"x"),
        (DecimalType(4, 1), Decimal("3.5"), b"3.5"),
    ]
    encoded = codes([kind for kind, _, _ in row], *([value] for _, value, _ in row))
    assert encoded == [hash_as_documented([canonical for _, _, canonical in row])]


@given(st.lists(st.tuples(st.text(), st.binary(max_size=40), st.integers(MIN_LONG, MAX_LONG)), max_size=20))
def test_random_composite_keys_are_hashed_as_documented(rows: list[tuple[str, bytes, int]]) -> None:
    rows = [row for row in rows if _is_valid_text(row[0])]
    texts, blobs, numbers = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
    expected = [
        hash_as_documented([text.encode(), blob, number.to_bytes(8, "little", signed=True)])
        for text, blob, number in rows
    ]
    assert codes([StringType(), BinaryType(), LongType()], texts, blobs, numbers) == expected


def _is_valid_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate is not text
        return False
    return True


def test_column_boundaries_of_a_composite_key_change_the_hash() -> None:
    pairs = [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", ""), ("c", "ab"), ("", "")]
    encoded = codes([StringType(), StringType()], [a for a, _ in pairs], [b for _, b in pairs])
    assert len(set(encoded)) == len(pairs)


def test_both_halves_of_a_hash_depend_on_every_column() -> None:
    encoded = codes([StringType(), StringType()], ["a", "a", "b"], ["x", "y", "x"])
    assert len({code >> 64 for code in encoded}) == len({code & 0xFFFFFFFF for code in encoded}) == 3


def test_low_half_differs_from_the_high_half() -> None:
    """If both halves were the same hash, 96 bits would be worth 64."""
    encoded = codes([LongType(), LongType()], list(range(500)), [0] * 500)
    assert all(code >> 64 & 0xFFFFFFFF != code & 0xFFFFFFFF for code in encoded)


def test_hash_is_salted_with_the_uuid_of_the_mirror() -> None:
    texts = pa.array(["a", "b"])
    first, second = (choose_codec([StringType()]).with_salt(uuid.UUID(int=number)) for number in (1, 2))
    assert not set(plain(first.encode([texts]))) & set(plain(second.encode([texts])))
    digest = hashlib.blake2b(b"a", digest_size=16, salt=bytes(15) + b"\x01").digest()
    assert plain(first.encode([texts]))[0] >> 64 == int.from_bytes(digest[:8], "little")


def test_lossless_code_is_not_salted() -> None:
    for kind in (LongType(), UUIDType()):
        assert choose_codec([kind]).with_salt(uuid.uuid4()) == choose_codec([kind])


def test_unicode_is_not_normalised() -> None:
    assert len(set(codes([StringType()], ["é", "e\u0301", "É", "e"]))) == 4


def test_binary_keys_that_differ_by_a_zero_byte_have_different_codes() -> None:
    assert len(set(codes([BinaryType()], [b"", b"\x00", b"\x00\x00", b"a", b"a\x00"]))) == 5


def test_decimal_keeps_its_code_when_its_precision_is_widened() -> None:
    values = [Decimal("1.50"), Decimal("-0.05"), Decimal("0.00"), Decimal("9999999.99")]
    assert codes([DecimalType(9, 2)], values) == codes([DecimalType(38, 2)], values)


def test_equal_decimals_have_the_same_code() -> None:
    assert len(set(codes([DecimalType(9, 2)], [Decimal("1.5"), Decimal("1.50"), Decimal("15E-1")]))) == 1


@pytest.mark.parametrize("bits", [4, 16, 64, 65, 96, 97, 128])
def test_hash_uses_the_configured_number_of_bits(bits: int) -> None:
    texts = [str(number) for number in range(2000)]
    keys = choose_codec([StringType()], bits).encode([pa.array(texts)])
    assert keys.hi is not None
    high, low = int(np.bitwise_or.reduce(keys.hi)), int(np.bitwise_or.reduce(keys.lo))
    assert high == (1 << min(bits, 64)) - 1
    assert low == (1 << max(bits - 64, 0)) - 1


def test_four_hash_bits_force_collisions() -> None:
    assert len(set(codes([StringType()], [str(number) for number in range(300)], hash_bits=4))) == 16


@pytest.mark.parametrize(
    "kind",
    [
        FloatType(),
        DoubleType(),
        ListType(1, LongType(), element_required=True),
        StructType(NestedField(1, "x", LongType())),
    ],
)
@pytest.mark.parametrize("companion", [(), (LongType(),)])
def test_key_type_without_unique_bytes_is_refused(
    kind: IcebergType, companion: tuple[IcebergType, ...]
) -> None:
    with pytest.raises(Invalid, match=r"may differ in their bytes.*primary_keys"):
        choose_codec([*companion, kind])


def test_only_hashes_are_lossy() -> None:
    lossless = {encoding: KeyCodec(encoding).is_lossless for encoding in Encoding}
    assert lossless == {Encoding.ORDERED_64: True, Encoding.ORDERED_128: True, Encoding.HASHED: False}


@pytest.mark.parametrize("variant", [pa.string(), pa.large_string()], ids=str)
def test_string_key_has_the_same_code_in_both_offset_widths(variant: pa.DataType) -> None:
    texts = ["17", "018", "x", ""]
    assert plain(choose_codec([StringType()]).encode([pa.array(texts, variant)])) == codes(
        [StringType()], texts
    )


@pytest.mark.parametrize("variant", [pa.binary(), pa.large_binary()], ids=str)
def test_binary_key_has_the_same_code_in_both_offset_widths(variant: pa.DataType) -> None:
    blobs = [b"17", b"\x00\xff", b""]
    assert plain(choose_codec([BinaryType()]).encode([pa.array(blobs, variant)])) == codes(
        [BinaryType()], blobs
    )
