from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from icemirror.cli.demo.oracle.canonical import (
    describe_cells,
    differing_cells,
    render_cells,
    render_rows,
    split_cells,
)


def _cells(values: list[Any], kind: pa.DataType) -> list[bytes]:
    cells: list[bytes] = render_cells(pa.array(values, kind), kind).to_pylist()
    return cells


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [0, -1, 1, None]),
        (pa.bool_(), [True, False, None]),
        (pa.float64(), [0.0, -0.0, float("nan"), float("inf"), 5e-324, None]),
        (pa.float32(), [0.0, -0.0, float("nan"), None]),
        (pa.string(), ["", "~", "0:", "1:~", "a", None]),
        (pa.binary(), [b"", b"\x00", b"\x00\x00", b"\xff", None]),
        (pa.decimal128(12, 2), [Decimal("0.00"), Decimal("-0.01"), Decimal("0.01"), None]),
        (pa.time64("us"), [0, 1, None]),
        (pa.timestamp("us", tz="UTC"), [0, -1, None]),
        (pa.date32(), [0, -1, None]),
        (pa.list_(pa.string()), [[], [None], [""], ["", ""], ["a", "bc"], ["ab", "c"], None]),
        (pa.list_(pa.float64()), [[0.0], [-0.0], [float("nan")], [None], [], None]),
        (
            pa.struct([("a", pa.int32()), ("b", pa.string())]),
            [{"a": None, "b": None}, {"a": 1, "b": ""}, {"a": 1, "b": None}, None],
        ),
        (pa.map_(pa.string(), pa.int64()), [[], [("a", 1)], [("a", None)], [("a1", None)], None]),
    ],
)
def test_different_values_have_different_cells(kind: pa.DataType, values: list[Any]) -> None:
    assert len(set(_cells(values, kind))) == len(values)


def test_all_nans_have_the_same_cell() -> None:
    quiet, negative = (struct.pack("<Q", bits) for bits in (0x7FF8000000000000, 0xFFF8000000000123))
    nans = np.frombuffer(quiet + negative, np.float64)
    first, second = render_cells(pa.array(nans, from_pandas=False), pa.float64()).to_pylist()
    assert first == second


def test_rows_do_not_depend_on_the_arrow_type_of_the_reader() -> None:
    plain = pa.table(
        {"s": ["x", None], "l": [["a"], None], "t": pa.array([1, 2], pa.timestamp("us", tz="UTC"))}
    )
    large = pa.table(
        {
            "t": pa.array([1, 2], pa.timestamp("us", tz="Etc/UTC")),
            "l": pa.array([["a"], None], pa.large_list(pa.large_string())),
            "s": pa.chunked_array([pa.array(["x"], pa.large_string()), pa.array([None], pa.large_string())]),
        }
    )
    assert render_rows(plain, plain.schema) == render_rows(large, plain.schema)


def test_array_slices_are_rendered_like_whole_arrays() -> None:
    kinds = {
        "list": pa.list_(pa.int64()),
        "map": pa.map_(pa.string(), pa.int64()),
        "struct": pa.struct([("a", pa.int64())]),
    }
    rows: list[dict[str, Any]] = [
        {"list": [1], "map": [("a", 1)], "struct": {"a": 1}},
        {"list": None, "map": None, "struct": None},
        {"list": [2, None], "map": [("b", None)], "struct": {"a": None}},
    ]
    for name, kind in kinds.items():
        whole = pa.array([row[name] for row in rows], kind)
        assert render_cells(whole.slice(1), kind).to_pylist() == render_cells(whole, kind).to_pylist()[1:]


def test_uuid_is_rendered_as_its_bytes() -> None:
    storage = pa.array([bytes(range(16))], pa.binary(16))
    as_extension = pa.ExtensionArray.from_storage(pa.uuid(), storage)
    assert render_cells(as_extension, pa.uuid()).to_pylist() == [b"16:" + bytes(range(16))]
    assert render_cells(storage.cast(pa.binary()), pa.uuid()).to_pylist() == [b"16:" + bytes(range(16))]


def test_rendered_row_can_be_split() -> None:
    table = pa.table({"id": [7], "name": pa.array([None], pa.string()), "tags": [["a", "bc"]]})
    (row,) = render_rows(table, table.schema)
    assert row == b"1:7~7:1:a2:bc"
    assert split_cells(row) == [b"7", None, b"1:a2:bc"]
    assert describe_cells(row) == "(7, NULL, 1:a2:bc)"
    assert differing_cells(row, b"1:7~3:1:a", table.schema.names) == ["tags"]


def test_lossy_conversion_is_an_error() -> None:
    with pytest.raises(pa.ArrowInvalid):
        render_cells(pa.array([1.5]), pa.int64())
