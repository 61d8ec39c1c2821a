from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import (
    DateType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    UUIDType,
)

from icemirror.errors import Invalid
from spark_job.changelog.sequence import SequenceCodec, choose_sequence
from spark_job.changelog.sequence_text import SequenceEncoding

TOP = 2**64 - 1


def codec(*kinds: IcebergType) -> SequenceCodec:
    return choose_sequence(
        [NestedField(position, f"s{position}", kind) for position, kind in enumerate(kinds, 1)]
    )


def parts(kind: IcebergType, array: pa.Array) -> list[list[int]]:
    found: list[list[int]] = codec(kind).encode([array], "f.parquet").tolist()
    return found


def hex_pair(high: int, low: int) -> str:
    return f"{high:016x}/{low:016x}"


@given(st.lists(st.tuples(st.integers(0, TOP), st.integers(0, TOP)), max_size=20))
def test_hex_pair_is_read_as_two_unsigned_numbers(pairs: list[tuple[int, int]]) -> None:
    texts = pa.array([hex_pair(*pair) for pair in pairs], pa.string())
    assert parts(StringType(), texts) == [list(pair) for pair in pairs]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_hex_pairs_are_read_from_every_text_type(kind: pa.DataType) -> None:
    texts = pa.array([hex_pair(1, 2), hex_pair(TOP, 0)], pa.string()).cast(kind)
    assert parts(StringType(), texts) == [[1, 2], [TOP, 0]]


def test_hex_pairs_are_read_from_array_slices_and_dictionaries() -> None:
    texts = pa.array([hex_pair(number, 0) for number in range(10)])
    assert parts(StringType(), texts.slice(3, 2)) == [[3, 0], [4, 0]]
    assert parts(StringType(), texts.dictionary_encode()) == [[number, 0] for number in range(10)]


def test_hex_digits_are_case_insensitive() -> None:
    assert parts(StringType(), pa.array(["00000000000000AB/00000000000000Cd"])) == [[0xAB, 0xCD]]


def test_zero_events_give_zero_sequences() -> None:
    assert codec(StringType()).encode([pa.array([], pa.string())], "f").shape == (0, 2)
    assert codec(LongType(), StringType()).encode(
        [pa.array([], pa.int64()), pa.array([], pa.string())], "f"
    ).shape == (0, 3)


GOOD = hex_pair(1, 2)
MALFORMED = {
    "empty": "",
    "a plain number": "12",
    "too short": GOOD[:-1],
    "too long": GOOD + "0",
    "no slash": GOOD.replace("/", "0"),
    "slash in the wrong place": GOOD[1:] + "0",
    "a letter beyond f": "g" + GOOD[1:],
    "a space": " " + GOOD[1:],
    "a sign": "-" + GOOD[1:],
    "two slashes": GOOD[:5] + "/" + GOOD[6:],
    "the last digit": GOOD[:-1] + "x",
    "not ASCII, 33 bytes": "é" + GOOD[2:],
    "0x": "0x" + GOOD[2:],
    "NUL": "\0" + GOOD[1:],
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_hex_pair_is_refused_with_file_and_row(name: str) -> None:
    texts = pa.array([GOOD, GOOD, MALFORMED[name], GOOD])
    with pytest.raises(
        Invalid, match=r"column s1 does not hold a sequence in row 2; expected 16 hex digits.*: f\.parquet$"
    ):
        parts(StringType(), texts)


def test_invalid_lengths_with_a_valid_total_are_refused() -> None:
    """32 and 34 characters are 66 in total, like two valid ones."""
    with pytest.raises(Invalid, match="row 0"):
        parts(StringType(), pa.array([GOOD[:-1], GOOD + "0"]))


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        (IntegerType(), pa.int32()),
        (LongType(), pa.int64()),
        (DateType(), pa.date32()),
        (TimestampType(), pa.timestamp("us")),
        (TimestamptzType(), pa.timestamp("us", "UTC")),
        (TimestampNanoType(), pa.timestamp("ns")),
        (TimestamptzNanoType(), pa.timestamp("ns", "UTC")),
    ],
    ids=str,
)
def test_numbers_dates_and_times_keep_their_order(kind: IcebergType, arrow: pa.DataType) -> None:
    values = [-(2**31) + 1, -1, 0, 1, 2**31 - 1]
    assert parts(kind, pa.array(values, arrow)) == [[value + 2**63] for value in values]


def test_limits_of_long_are_the_limits_of_the_order() -> None:
    assert parts(LongType(), pa.array([-(2**63), 2**63 - 1])) == [[0], [TOP]]


def test_numbers_in_text_are_not_compared_as_text() -> None:
    """hudi#9475: "00000.23" beat "00000.123" and lost data."""
    with pytest.raises(Invalid):
        parts(StringType(), pa.array(["00000.23", "00000.123"]))


def test_several_columns_are_compared_left_to_right() -> None:
    several = codec(LongType(), StringType(), DateType())
    assert (several.parts, several.field_ids) == (4, (1, 2, 3))
    found = several.encode([pa.array([7]), pa.array([hex_pair(8, 9)]), pa.array([dt.date(1970, 1, 2)])], "f")
    assert found.tolist() == [[7 + 2**63, 8, 9, 1 + 2**63]]


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        (LongType(), pa.array([1, 2, None])),
        (StringType(), pa.array([GOOD, GOOD, None])),
        (TimestampType(), pa.array([1, 2, None], pa.timestamp("us"))),
    ],
    ids=str,
)
def test_event_without_a_sequence_is_refused_with_file_and_row(kind: IcebergType, array: pa.Array) -> None:
    with pytest.raises(Invalid, match=r"s1 is NULL in row 2, so the event has no order: .*f\.parquet"):
        parts(kind, array)


@pytest.mark.parametrize("kind", [DoubleType(), UUIDType()], ids=str)
def test_column_without_an_exact_order_is_refused(kind: IcebergType) -> None:
    with pytest.raises(Invalid, match=r"column s1 of type .* cannot be a sequence.*use integers"):
        codec(kind)


def test_text_is_decoded_as_hex_pairs_by_default() -> None:
    assert [column.encoding for column in codec(StringType(), LongType()).columns] == [
        SequenceEncoding.HEX_PAIR,
        SequenceEncoding.NUMBER,
    ]
