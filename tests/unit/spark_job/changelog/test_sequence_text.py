from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import DecimalType, IcebergType, LongType, NestedField, StringType

from icemirror.errors import Invalid
from spark_job.changelog.sequence import SequenceCodec, choose_sequence
from spark_job.changelog.sequence_text import TEXT_ENCODINGS, SequenceEncoding

TOP = 2**64 - 1
HALF = 10**19


def codec(encoding: SequenceEncoding, kind: IcebergType | None = None) -> SequenceCodec:
    return choose_sequence([NestedField(1, "s", kind or StringType())], {"s": encoding})


def parts(encoding: SequenceEncoding, *texts: str) -> list[list[int]]:
    found: list[list[int]] = codec(encoding).encode([pa.array(texts, pa.string())], "f.parquet").tolist()
    return found


EXAMPLES = {
    SequenceEncoding.DIGITS: [
        ("0", [0, 0]),
        ("00012", [0, 12]),
        ("9" * 38, [HALF - 1, HALF - 1]),
        ("20260301100000000000000000000000010", [2026030110000000, 10]),
    ],
    SequenceEncoding.TIMESTAMP: [
        ("1970-01-01 00:00:00", [2**63]),
        ("1970-01-01T00:00:00.000001", [2**63 + 1]),
        ("1969-12-31 23:59:59.5", [2**63 - 500_000]),
    ],
    SequenceEncoding.POSTGRES_LSN: [
        ("0/0", [0]),
        ("16/B374D848", [0x16B374D848]),
        ("1/2", [(1 << 32) + 2]),
        ("FFFFFFFF/ffffffff", [TOP]),
    ],
    SequenceEncoding.POSTGRES_SEQUENCE: [
        ('["24023119","24023128"]', [24023119, 24023128]),
        ('[null,"7"]', [0, 7]),
        ('[ "1" , "2" ]', [1, 2]),
    ],
    SequenceEncoding.BINLOG_FILE: [("mysql-bin.000003", [3]), ("mysql-bin.1000000", [1000000])],
    SequenceEncoding.SQLSERVER_LSN: [
        ("00000027:00000ac0:0002", [0x2700000AC0, 2]),
        ("ffffffff:FFFFFFFF:ffff", [TOP, 0xFFFF]),
    ],
}


@pytest.mark.parametrize("encoding", EXAMPLES)
def test_text_is_read_as_numbers(encoding: SequenceEncoding) -> None:
    texts, expected = zip(*EXAMPLES[encoding], strict=True)
    assert parts(encoding, *texts) == list(expected)
    assert codec(encoding).parts == len(expected[0])


def test_every_text_encoding_has_an_example() -> None:
    assert set(EXAMPLES) == set(TEXT_ENCODINGS) - {SequenceEncoding.HEX_PAIR}


@pytest.mark.parametrize("encoding", TEXT_ENCODINGS)
def test_zero_events_give_zero_parts(encoding: SequenceEncoding) -> None:
    assert codec(encoding).encode([pa.array([], pa.string())], "f").shape == (0, codec(encoding).parts)


@given(st.lists(st.integers(0, 10**38 - 1), min_size=1, max_size=20))
def test_numbers_in_text_have_the_order_of_numbers(numbers: list[int]) -> None:
    found = parts(SequenceEncoding.DIGITS, *map(str, numbers))
    assert [high * HALF + low for high, low in found] == numbers
    assert sorted(range(len(numbers)), key=lambda position: found[position]) == sorted(
        range(len(numbers)), key=lambda position: numbers[position]
    )


@given(st.lists(st.integers(0, TOP), min_size=1, max_size=20))
def test_lsns_in_text_have_the_order_of_numbers(numbers: list[int]) -> None:
    texts = [f"{number >> 32:X}/{number & 0xFFFFFFFF:X}" for number in numbers]
    assert parts(SequenceEncoding.POSTGRES_LSN, *texts) == [[number] for number in numbers]


MALFORMED = {
    SequenceEncoding.DIGITS: ["", "-1", "1.5", "1 ", "9" * 39, "1e3", "٣"],
    SequenceEncoding.TIMESTAMP: [
        "",
        "2026-03-01",
        "2026-03-01 10:00:00Z",
        "2026-13-01 10:00:00",
        "2026-03-01 10:00:00.1234567",
    ],
    SequenceEncoding.POSTGRES_LSN: ["", "16", "16/", "/1", "16/B374D8480", "16/G", "1/2/3"],
    SequenceEncoding.POSTGRES_SEQUENCE: ["", "[1,2]", '["1"]', '["1",null]', '["1","2","3"]', '["1","2"'],
    SequenceEncoding.BINLOG_FILE: [
        "",
        "mysql-bin",
        "mysql-bin.",
        ".000001",
        "mysql-bin.00000a",
        "other-bin.000003",
    ],
    SequenceEncoding.SQLSERVER_LSN: [
        "",
        "00000027:00000ac0",
        "27:ac0:2",
        "00000027:00000ac0:00022",
        "0000002g:00000ac0:0002",
    ],
}


@pytest.mark.parametrize(
    ("encoding", "text"), [(encoding, text) for encoding, texts in MALFORMED.items() for text in texts]
)
def test_malformed_text_is_refused_with_file_and_row(encoding: SequenceEncoding, text: str) -> None:
    good = EXAMPLES[encoding][0][0]
    with pytest.raises(
        Invalid, match=r"column s does not hold a sequence in row 2; expected .*: f\.parquet$"
    ):
        parts(encoding, good, good, text, good)


@given(st.lists(st.integers(-(10**20), 10**20), min_size=1, max_size=20))
def test_decimals_keep_their_order(numbers: list[int]) -> None:
    array = pa.array(numbers, pa.decimal128(38, 0))
    found = codec(SequenceEncoding.HEX_PAIR, DecimalType(38, 0)).encode([array], "f").tolist()
    assert sorted(zip(found, numbers, strict=True)) == sorted(
        zip(found, numbers, strict=True), key=lambda pair: pair[1]
    )


def test_null_is_the_lowest_sequence_only_for_the_given_events() -> None:
    two = choose_sequence(
        [NestedField(1, "a", LongType()), NestedField(2, "b", StringType())], {"b": SequenceEncoding.DIGITS}
    )
    arrays = [pa.array([None, -(2**63) + 1]), pa.array(["7", None])]
    found = two.encode(arrays, "f", null_is_lowest=pa.array([True, True]).to_numpy(zero_copy_only=False))
    assert found.tolist() == [[0, 0, 7], [1, 0, 0]]
    with pytest.raises(Invalid, match="b is NULL in row 1, so the event has no order: f"):
        two.encode(arrays, "f", null_is_lowest=pa.array([True, False]).to_numpy(zero_copy_only=False))


def test_row_numbers_in_errors_count_filtered_rows() -> None:
    rows = pa.array([4, 9]).to_numpy()
    with pytest.raises(Invalid, match="column s does not hold a sequence in row 9"):
        codec(SequenceEncoding.DIGITS).encode([pa.array(["1", "x"])], "f", rows=rows)
    with pytest.raises(Invalid, match="s is NULL in row 9"):
        codec(SequenceEncoding.DIGITS).encode([pa.array(["1", None])], "f", rows=rows)
