"""Bounds cover every value and equal those of Iceberg Java (compared in tests/interop/test_column_metrics.py)."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    UUIDType,
)

from spark_job.write.file_statistics import column_bounds, round_up_bytes, round_up_text

NAN = float("nan")


def bounds(kind: PrimitiveType, arrow: pa.DataType, values: list[Any], length: int = 16) -> tuple[Any, Any]:
    return column_bounds(pa.chunked_array([pa.array(values, arrow)]), kind, length)


@pytest.mark.parametrize(
    ("text", "rounded"),
    [
        ("abc", "abc"),
        ("abcd", "abd"),
        ("ab\U0010ffffd", "ac"),
        ("ab\ud7ffd", "ab\ue000"),
        ("ab\uffffd", "ab\U00010000"),
        ("\U0010ffff" * 4, None),
        ("🎁🎁🎁🎁", "🎁🎁🎂"),
    ],
    ids=ascii,
)
def test_text_is_rounded_up_by_characters(text: str, rounded: str | None) -> None:
    assert round_up_text(text, 3) == rounded


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(b"abc", b"abc"), (b"abcd", b"abd"), (b"a\xff\xff\xff", b"b"), (b"\xff" * 4, None), (b"", b"")],
)
def test_binary_is_rounded_up_by_bytes(value: bytes, rounded: bytes | None) -> None:
    assert round_up_bytes(value, 3) == rounded


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.integers(1, 5))
def test_rounded_text_is_short_and_not_smaller(text: str, length: int) -> None:
    rounded = round_up_text(text, length)
    if rounded is None:
        assert set(text[:length]) == {"\U0010ffff"}
    else:
        assert len(rounded) <= length
        assert rounded.encode() >= text.encode()


@pytest.mark.parametrize(
    ("values", "lower", "upper"),
    [
        ([0.0, -0.0, None], -0.0, 0.0),
        ([0.0], 0.0, 0.0),
        ([-0.0, NAN], -0.0, -0.0),
        ([-0.0, 1.0], -0.0, 1.0),
        ([-1.0, -0.0, 0.0], -1.0, 0.0),
        ([NAN, float("-inf")], float("-inf"), float("-inf")),
    ],
)
def test_zeros_are_signed_and_nan_is_ignored(values: list[float | None], lower: float, upper: float) -> None:
    assert bounds(DoubleType(), pa.float64(), values) == (struct.pack("<d", lower), struct.pack("<d", upper))


@pytest.mark.parametrize(
    ("kind", "arrow", "values"),
    [
        (DoubleType(), pa.float64(), [NAN, None]),
        (StringType(), pa.large_string(), [None]),
        (StringType(), pa.large_string(), []),
        (UUIDType(), pa.binary(16), [b"\x00" * 16]),
    ],
    ids=str,
)
def test_column_without_comparable_values_has_no_bounds(
    kind: PrimitiveType, arrow: pa.DataType, values: list[Any]
) -> None:
    assert bounds(kind, arrow, values) == (None, None)


def test_invalid_utf8_has_no_bounds() -> None:
    broken = pa.array([b"\xff\xfe"], pa.large_binary()).view(pa.large_string())
    assert column_bounds(pa.chunked_array([broken]), StringType(), 16) == (None, None)


def test_bounds_of_fixed_and_decimals_are_not_truncated() -> None:
    long = b"\xff" * 20
    assert bounds(FixedType(20), pa.binary(20), [long]) == (long, long)
    least, most = Decimal("-" + "9" * 38), Decimal("9" * 38)
    lower, upper = bounds(DecimalType(38, 0), pa.decimal128(38, 0), [least, most])
    assert int.from_bytes(lower, "big", signed=True) == int(least)
    assert int.from_bytes(upper, "big", signed=True) == int(most)


def test_nanoseconds_are_kept() -> None:
    found = bounds(TimestampNanoType(), pa.timestamp("ns"), [-1, 1_700_000_000_000_000_001])
    assert found == (struct.pack("<q", -1), struct.pack("<q", 1_700_000_000_000_000_001))


def test_upper_bound_that_cannot_be_rounded_up_is_omitted() -> None:
    assert bounds(BinaryType(), pa.large_binary(), [b"\xff" * 20]) == (b"\xff" * 16, None)
