from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from spark_job.changelog.unchanged_placeholder import UnchangedPlaceholder, placeholder_columns

MARKER = UnchangedPlaceholder("gone?")
RAW = b"gone?"

MARKED: dict[str, tuple[pa.DataType, Any, list[Any]]] = {
    "text": (pa.large_string(), "gone?", ["", "gone", "gone??", None]),
    "text of JSON": (pa.string(), '{"gone?":"gone?"}', ["{}", None]),
    "text of Base64": (pa.string(), "Z29uZT8=", ["Z29uZT8", None]),
    "text of hexadecimal digits": (pa.string(), "676f6e653f", ["676f", None]),
    "binary": (pa.large_binary(), RAW, [b"", b"gone", None]),
    "list of text": (
        pa.large_list(pa.large_string()),
        ["gone?"],
        [[], ["gone?", "gone?"], ["x"], [None], None],
    ),
    "list of binary": (pa.list_(pa.binary()), [RAW], [[b"x"], [], None]),
    "list of ints": (
        pa.list_(pa.int32()),
        list(RAW),
        [list(RAW)[::-1], list(RAW)[:-1], [None] * 5, [], None],
    ),
    "list of longs": (pa.large_list(pa.int64()), list(RAW), [[1], None]),
    "list of doubles": (pa.list_(pa.float64()), [float(one) for one in RAW], [[1.5] * 5, None]),
    "map": (
        pa.map_(pa.string(), pa.string()),
        [("gone?", "gone?")],
        [[("gone?", "x")], [("x", "gone?")], [], None],
    ),
}


@pytest.mark.parametrize("name", MARKED)
def test_only_placeholders_are_detected(name: str) -> None:
    kind, marked, others = MARKED[name]
    values = [*others, marked, *others, marked]
    column = pa.chunked_array([pa.array(values, kind), pa.array([], kind), pa.array(values[:1], kind)])
    found = MARKER.find(column)
    assert found is not None
    assert found.tolist() == [value == marked for value in [*values, values[0]]]
    assert MARKER.find(pa.chunked_array([pa.array(others, kind)])) is None


def test_placeholder_is_detected_in_a_sliced_array() -> None:
    array = pa.array([["x"], ["gone?"], ["y"], ["gone?"]], pa.list_(pa.string())).slice(1, 2)
    found = MARKER.find(pa.chunked_array([array]))
    assert found is not None
    assert found.tolist() == [True, False]


def test_uuid_placeholder_equals_javas_name_uuid() -> None:
    """UUID.nameUUIDFromBytes("__debezium_unavailable_value".getBytes())"""
    text = "__debezium_unavailable_value"
    expected = str(
        uuid.uuid3(uuid.UUID(bytes=b"\0" * 16), text)
    )  # uuid3 uses a namespace, so the result differs
    marker = UnchangedPlaceholder(text)
    assert marker.find(pa.chunked_array([pa.array([[expected]])])) is None
    own = next(one for one in marker._texts if one.count("-") == 4 and len(one) == 36)
    found = marker.find(pa.chunked_array([pa.array([[own], ["x"]])]))
    assert found is not None
    assert found.tolist() == [True, False]
    assert uuid.UUID(own).version == 3


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.bool_(), pa.struct([("a", pa.string())]), pa.list_(pa.bool_())], ids=str
)
def test_other_types_have_no_placeholder(kind: pa.DataType) -> None:
    assert MARKER.find(pa.chunked_array([pa.nulls(3, kind)])) is None


def test_markable_columns_depend_on_the_type() -> None:
    schema = Schema(
        NestedField(1, "id", StringType(), required=True),
        NestedField(2, "number", LongType()),
        NestedField(3, "text", StringType()),
        NestedField(4, "raw", BinaryType()),
        NestedField(5, "list", ListType(20, StringType())),
        NestedField(6, "numbers", ListType(21, LongType())),
        NestedField(7, "lists", ListType(22, ListType(23, StringType()))),
        NestedField(8, "map", MapType(24, StringType(), 25, StringType())),
        NestedField(9, "other", MapType(26, StringType(), 27, LongType())),
        NestedField(10, "struct", StructType(NestedField(28, "a", StringType()))),
        NestedField(11, "uuid", UUIDType()),
    )
    assert placeholder_columns(schema, {1}) == ("text", "raw", "list", "numbers", "map")
