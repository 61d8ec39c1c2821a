"""Digests of rows differ exactly if their values differ, in any Arrow representation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from icemirror.cli.demo.oracle.canonical import render_rows
from spark_job.commands.verify.row_digest import digest_column, digest_rows
from tests.oracle.value_pools import VALUE_COLUMNS


def pool(name: str) -> pa.Table:
    kind, values = VALUE_COLUMNS[name]
    schema = schema_to_pyarrow(Schema(NestedField(1, "value", kind, required=False)))
    return pa.table([pa.array([*values, None], schema.field("value").type)], schema=schema)


@pytest.mark.parametrize("name", sorted(VALUE_COLUMNS))
def test_digests_are_equal_exactly_if_the_values_are_equal(name: str) -> None:
    table = pool(name)
    rendered = render_rows(table, table.schema)
    by_value: dict[bytes, set[int]] = {}
    for value, digest in zip(rendered, digest_rows(table).tolist(), strict=True):
        by_value.setdefault(value, set()).add(digest)
    assert all(len(digests) == 1 for digests in by_value.values())
    assert len({next(iter(digests)) for digests in by_value.values()}) == len(by_value)


@pytest.mark.parametrize("name", sorted(VALUE_COLUMNS))
def test_digests_do_not_depend_on_slices_and_chunks(name: str) -> None:
    table = pool(name)
    whole = digest_rows(table)
    for start in range(table.num_rows):
        assert np.array_equal(digest_rows(table.slice(start, 2)), whole[start : start + 2])
    chunked = pa.concat_tables([table.slice(row, 1) for row in range(table.num_rows)])
    assert np.array_equal(digest_rows(chunked), whole)


def column(values: list[Any], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[1, 2], [2, 1], [1], [], None, [None], [None, None], [0], [1, 2, 0]], pa.large_list(pa.int64())),
        ([[[1], [2]], [[1, 2]], [[], [1, 2]], [[1, 2], []], [None, [1, 2]]], pa.list_(pa.list_(pa.int64()))),
        ([{"a": 1, "b": 2}, {"a": 2, "b": 1}, {"a": None, "b": 1}, None, {"a": None, "b": None}],
         pa.struct([("a", pa.int64()), ("b", pa.int64())])),
        ([[("a", 1)], [("a", 2)], [("b", 1)], [], None, [("a", None)], [("a", 1), ("b", 1)]],
         pa.map_(pa.string(), pa.int64())),
        ([0.0, -0.0, 1.0, float("nan"), float("inf"), None], pa.float64()),
        (["", None, "a", "b", "ab"], pa.string()),
    ],
)  # fmt: skip
def test_similar_values_have_different_digests(values: list[Any], kind: pa.DataType) -> None:
    assert len(set(digest_column(column(values, kind)).tolist())) == len(values)


def test_values_swapped_between_columns_change_the_digest() -> None:
    table = pa.table({"a": [1, None], "b": [2, 3]})
    swapped = pa.table({"a": [2, 3], "b": [1, None]})
    assert not set(digest_rows(table).tolist()) & set(digest_rows(swapped).tolist())


def test_all_nans_have_the_same_digest() -> None:
    bits = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000], dtype=np.uint64)
    digests = digest_column(pa.chunked_array([pa.array(bits.view(np.float64))]))
    assert len(set(digests.tolist())) == 1
