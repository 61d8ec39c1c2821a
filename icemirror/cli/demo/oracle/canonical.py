"""Renders rows as bytes: two rows are equal exactly if their bytes are.

A cell is a netstring, `~` where it is NULL; a row, a list and a struct are their cells one after the other:

    (7, NULL, ["a", "bc"])  →  1:7 ~ 7:1:a2:bc      (without the blanks)

Floats are written as their bit pattern, so −0.0 is not 0.0; every NaN is the same NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NULL_CELL = b"~"

# pyarrow ships no types; arrays and data types are Any to mypy.
Array = Any
DataType = Any


def render_rows(table: pa.Table, columns: pa.Schema) -> list[bytes]:
    """Return the rows of `table` as bytes, in the order and with the types of `columns`."""
    if table.num_rows == 0:
        return []
    cells = [render_cells(_one_chunk(table.column(field.name)), field.type) for field in columns]
    rows: list[bytes] = pc.binary_join_element_wise(*cells, b"").to_pylist()
    return rows


def render_cells(array: Array, expected: DataType) -> Array:
    """Return one cell per value; `expected` is the column's type, which determines time units."""
    content = _content(array, expected)
    length = pc.binary_length(content).cast(pa.string()).cast(pa.binary())
    return pc.fill_null(pc.binary_join_element_wise(length, content, b":"), NULL_CELL)


def split_cells(rendered: bytes) -> list[bytes | None]:
    """Return the contents of the outermost cells of a row."""
    cells: list[bytes | None] = []
    offset = 0
    while offset < len(rendered):
        if rendered[offset : offset + 1] == NULL_CELL:
            cells.append(None)
            offset += 1
            continue
        colon = rendered.index(b":", offset)
        end = colon + 1 + int(rendered[offset:colon])
        cells.append(rendered[colon + 1 : end])
        offset = end
    return cells


def describe_cells(rendered: bytes) -> str:
    """Return a row or key as readable text; cells that are not text as hexadecimal."""
    return "(" + ", ".join(_describe(cell) for cell in split_cells(rendered)) + ")"


def differing_cells(left: bytes, right: bytes, names: Sequence[str]) -> list[str]:
    """Return the columns in which two rows differ."""
    pairs = zip(names, split_cells(left), split_cells(right), strict=True)
    return [name for name, left_cell, right_cell in pairs if left_cell != right_cell]


def _describe(cell: bytes | None) -> str:
    if cell is None:
        return "NULL"
    try:
        text = cell.decode()
    except UnicodeDecodeError:
        return cell.hex()
    if not text.isprintable():
        return cell.hex()
    return text if len(text) <= 60 else f"{text[:57]}…"


def _one_chunk(column: Array) -> Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _content(array: Array, expected: DataType) -> Array:
    """Return the values as bytes; NULL stays NULL."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if isinstance(expected, pa.BaseExtensionType):
        expected = expected.storage_type
    types = pa.types
    if types.is_struct(expected):
        return _struct_content(array, expected)
    if types.is_map(expected):
        return _map_content(array, expected)
    if types.is_list(expected) or types.is_large_list(expected):
        return _join_lists(array, render_cells(array.flatten(), expected.value_type))
    if types.is_floating(expected):
        return _float_content(array.cast(expected))
    if types.is_temporal(expected):
        return _text(array.cast(expected).cast(pa.int32() if types.is_date32(expected) else pa.int64()))
    if types.is_integer(expected) or types.is_boolean(expected) or types.is_decimal(expected):
        return _text(array.cast(expected))
    if types.is_fixed_size_binary(expected):
        # Through the fixed type, so that a value of another length is an error.
        return array.cast(expected).cast(pa.binary())
    return array.cast(expected).cast(pa.large_binary()).cast(pa.binary())


def _text(array: Array) -> Array:
    return array.cast(pa.string()).cast(pa.binary())


def _float_content(array: Array) -> Array:
    # Every NaN becomes the same NaN, with any payload; if_else keeps NULL.
    one_nan = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), array)
    return _text(one_nan.view(pa.int32() if pa.types.is_float32(array.type) else pa.int64()))


def _struct_content(array: Array, expected: DataType) -> Array:
    names = {field.name for field in array.type}
    expected_names = {field.name for field in expected}
    if names != expected_names:
        raise ValueError(f"struct fields are {sorted(names)}, expected {sorted(expected_names)}")
    cells = [render_cells(pc.struct_field(array, field.name), field.type) for field in expected]
    return _where_valid(array, pc.binary_join_element_wise(*cells, b""))


def _map_content(array: Array, expected: DataType) -> Array:
    # The order of entries counts: nothing between changelog and mirror may change it.
    if array.offset:
        array = pa.concat_arrays([array])
    entries = pc.binary_join_element_wise(
        render_cells(array.keys, expected.key_type), render_cells(array.items, expected.item_type), b""
    )
    lists = pa.ListArray.from_arrays(array.offsets, entries)
    return _where_valid(array, pc.binary_join(lists, b""))


def _join_lists(array: Array, cells: Array) -> Array:
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    offsets = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), cells), b"")
    return _where_valid(array, joined)


def _where_valid(array: Array, content: Array) -> Array:
    return pc.if_else(array.is_valid(), content, pa.scalar(None, pa.binary()))
