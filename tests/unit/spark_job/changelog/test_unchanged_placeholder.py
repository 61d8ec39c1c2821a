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

PLACEHOLDER = UnchangedPlaceholder("gone?")
RAW = b"gone?"

PLACEHOLDERS: dict[str, tuple[pa.DataType, Any, list[Any]]] = {
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
    "list of doubles": (pa.list_(pa.float64()), [float(byte) for byte in RAW], [[1.5] * 5, None]),
    "map": (
        pa.map_(pa.string(), pa.string()),
        [("gone?", "gone?")],
        [[("gone?", "x")], [("x", "gone?")], [], None],
    ),
}


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_only_placeholders_are_detected(name: str) -> None:
    kind, placeholder, other_values = PLACEHOLDERS[name]
    values = [*other_values, placeholder, *other_values, placeholder]
    column = pa.chunked_array([pa.array(values, kind), pa.array([], kind), pa.array(values[:1], kind)])
    found = PLACEHOLDER.find(column)
    assert found is not None
    assert found.tolist() == [value == placeholder for value in [*values, values[0]]]
    assert PLACEHOLDER.find(pa.chunked_array([pa.array(other_values, kind)])) is None


def test_placeholder_is_detected_in_a_sliced_array() -> None:
    array = pa.array([["x"], ["gone?"], ["y"], ["gone?"]], pa.list_(pa.string())).slice(1, 2)
    found = PLACEHOLDER.find(pa.chunked_array([array]))
    assert found is not None
    assert found.tolist() == [True, False]


def test_uuid_placeholder_equals_javas_name_uuid() -> None:
    """UUID.nameUUIDFromBytes("__debezium_unavailable_value".getBytes())"""
    text = "__debezium_unavailable_value"
    expected = str(
        uuid.uuid3(uuid.UUID(bytes=b"\0" * 16), text)
    )  # uuid3 adds a namespace, so the result differs
    placeholder = UnchangedPlaceholder(text)
    assert placeholder.find(pa.chunked_array([pa.array([[expected]])])) is None
    name_uuid = next(text for text in placeholder._texts if text.count("-") == 4 and len(text) == 36)
    found = placeholder.find(pa.chunked_array([pa.array([[name_uuid], ["x"]])]))
    assert found is not None
    assert found.tolist() == [True, False]
    assert uuid.UUID(name_uuid).version == 3


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.bool_(), pa.struct([("a", pa.string())]), pa.list_(pa.bool_())], ids=str
)
def test_other_types_have_no_placeholder(kind: pa.DataType) -> None:
    assert PLACEHOLDER.find(pa.chunked_array([pa.nulls(3, kind)])) is None


def test_type_decides_which_columns_can_have_a_placeholder() -> None:
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
