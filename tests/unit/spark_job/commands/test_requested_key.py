"""Keys given by users: JSON parsed by the types of the key columns, and errors that state what is expected."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from spark_job.columns.json_values import row_as_json
from spark_job.commands.explain.requested_key import BadKey, parse_key
from tests.oracle.key_pools import KEY_KINDS, make_key_pool


def fields(*columns: tuple[str, IcebergType]) -> list[NestedField]:
    return [
        NestedField(field_id, name, kind, required=True) for field_id, (name, kind) in enumerate(columns, 1)
    ]


def parse_value(kind: IcebergType, json_value: Any) -> Any:
    (column,) = parse_key(json.dumps(json_value), fields(("id", kind))).columns
    return column.value


@pytest.mark.parametrize(
    ("kind", "json_value", "value"),
    [
        (IntegerType(), -(2**31), -(2**31)),
        (LongType(), 2**63 - 1, 2**63 - 1),
        (BooleanType(), False, False),
        (StringType(), "42", "42"),
        (UUIDType(), "f79c3e09-677c-4bbd-a479-3f349cb785e7", bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")),
        (FixedType(2), "00fF", b"\x00\xff"),
        (BinaryType(), "", b""),
        (DecimalType(9, 2), "14.20", Decimal("14.20")),
        (DecimalType(9, 2), 14, Decimal("14.00")),
        (DecimalType(38, 10), f"-{'9' * 28}.{'9' * 10}", Decimal(f"-{'9' * 28}.{'9' * 10}")),
        (DateType(), "1970-01-02", 1),
        (DateType(), "0001-01-01", -719_162),
        (TimeType(), "00:01:00.5", 60_500_000),
        (TimestampType(), "1970-01-01T00:00:01.000001", 1_000_001),
        (TimestampType(), "1969-12-31 23:59:59.999999", -1),
        (TimestamptzType(), "1970-01-01T02:00:00+02:00", 0),
        (TimestamptzType(), "1969-12-31T22:30-01:30", 0),
        (TimestamptzType(), "1970-01-01T00:00:00Z", 0),
        (TimestampNanoType(), "1970-01-01T00:00:00.000000001", 1),
        (TimestamptzNanoType(), "1970-01-01T00:00:00.000001Z", 1000),
    ],
)  # fmt: skip
def test_value_is_parsed_by_its_type(kind: IcebergType, json_value: Any, value: Any) -> None:
    assert parse_value(kind, json_value) == value
    assert type(parse_value(kind, json_value)) is type(value)


@pytest.mark.parametrize(
    ("kind", "json_value", "message"),
    [
        (IntegerType(), 2**31, "32 bits"),
        (LongType(), -(2**63) - 1, "64 bits"),
        (LongType(), "42", "found text"),
        (LongType(), 4.5, "found a number"),
        (LongType(), True, "found true or false"),
        (LongType(), [1], "found a list"),
        (LongType(), None, "id is NULL"),
        (BooleanType(), 1, "found a whole number"),
        (StringType(), 42, "text in double quotes, found a whole number"),
        (StringType(), "\ud800", "text in double quotes"),
        (UUIDType(), "f79c3e09", "such as f79c"),
        (FixedType(2), "00", "4 hexadecimal digits"),
        (BinaryType(), "0g", "hexadecimal"),
        (DecimalType(9, 2), "1.001", "at most 2 digits"),
        (DecimalType(4, 2), "100", "expected "),
        (DecimalType(9, 2), "NaN", "expected "),
        (DecimalType(9, 2), True, "found true or false"),
        (DateType(), "2024-02-30", "such as 2017-11-16"),
        (DateType(), "today", "such as 2017-11-16"),
        (TimeType(), "24:00:00", "such as 22:31"),
        (TimeType(), "00:00:00.0000001", "such as 22:31"),
        (TimestampType(), "2024-01-01T00:00:00Z", "without an offset"),
        (TimestamptzType(), "2024-01-01T00:00:00", "with an offset"),
        (TimestampNanoType(), "9999-01-01T00:00:00", "expected "),
    ],
)
def test_value_of_another_type_is_refused(kind: IcebergType, json_value: Any, message: str) -> None:
    with pytest.raises(BadKey, match="id ") as refused:
        parse_value(kind, json_value)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abc", "Quote text twice"),
        ("", "not valid JSON"),
        ("NaN", "not valid JSON"),
        ('{"a": 1, "a": 2}', "given twice"),
        ("1", "the key has 2 columns"),
        ('{"a": 1}', "b is missing: the key is a, b"),
        ('{"a": 1, "b": "x", "c": 2}', "c is not a key column; the key is a, b"),
        ("9" * 5000, "not valid JSON of a key"),
    ],
)
def test_key_with_other_columns_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadKey) as refused:
        parse_key(text, fields(("a", LongType()), ("b", StringType())))
    assert message in str(refused.value)


def test_misspelt_column_suggests_the_nearest_name() -> None:
    with pytest.raises(BadKey, match="did you mean order_id"):
        parse_key('{"orderid": 1}', fields(("order_id", LongType())))


@pytest.mark.parametrize("kind", KEY_KINDS)
def test_displayed_key_can_be_requested(kind: str) -> None:
    pool = make_key_pool(kind, 30, np.random.default_rng(7))
    columns = fields(*KEY_KINDS[kind].columns)
    for row in range(pool.num_rows):
        shown = row_as_json(pool.slice(row, 1))
        key = parse_key(json.dumps(shown), columns)
        assert key.as_json == shown
        for requested, column in zip(key.columns, pool.columns, strict=True):
            stored = _storage(column.combine_chunks())
            assert requested.equals(stored).tolist()[row]


def _storage(column: pa.Array) -> pa.Array:
    column = column.storage if isinstance(column.type, pa.BaseExtensionType) else column
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
