"""File statistics are correct: a wrong bound hides rows from readers."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IcebergType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from spark_job.write.parquet_writer import ParquetFileWriter
from tests.lab.parquet_damage import unnoticed_flips

V = 2
NAN = float("nan")


def write(
    folder: Path, kind: IcebergType, values: Sequence[Any], row_group_rows: int | None = None
) -> dict[str, Any]:
    """Return the statistics of a file of id and v, written to `folder / "f.parquet"`."""
    schema = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(V, "v", kind, required=False)
    )
    arrow = schema_to_pyarrow(schema)
    columns = [pa.array(range(len(values)), pa.int64()), pa.array(values, arrow.field("v").type)]
    output = PyArrowFileIO().new_output(str(folder / "f.parquet"))
    properties = {"write.parquet.row-group-limit": str(row_group_rows)} if row_group_rows else {}
    files = ParquetFileWriter(schema, properties)
    return files.write(output, pa.Table.from_arrays(columns, schema=arrow), files.new_sizer())


def test_rows_nulls_and_bounds_are_counted(tmp_path: Path) -> None:
    found = write(tmp_path, StringType(), ["b", None, "a", "c"])
    assert found["record_count"] == pq.read_table(tmp_path / "f.parquet").num_rows == 4
    assert found["null_value_counts"] == {1: 0, V: 1}
    assert found["value_counts"] == {1: 4, V: 4}
    assert (found["lower_bounds"][V], found["upper_bounds"][V]) == (b"a", b"c")
    assert found["lower_bounds"][1] == struct.pack("<q", 0)


@pytest.mark.parametrize("index", [0, 2])
@pytest.mark.parametrize("value", ["z" * 10_000, "A" * 10_000], ids=["last", "first"])
def test_bounds_include_a_value_too_long_for_parquet_statistics(
    tmp_path: Path, index: int, value: str
) -> None:
    """Parquet stores no bounds beyond 4 KiB; those of the other row groups would be wrong."""
    values = ["m", "n", "o", "p"]
    values[index] = value
    found = write(tmp_path, StringType(), values, row_group_rows=2)
    assert pq.read_metadata(tmp_path / "f.parquet").num_row_groups == 2
    assert found["lower_bounds"][V] == min(values)[:16].encode()
    assert found["upper_bounds"][V] == (b"z" * 15 + b"{" if value[0] == "z" else max(values).encode())


def test_row_group_of_nulls_does_not_remove_bounds(tmp_path: Path) -> None:
    found = write(tmp_path, StringType(), [None, None, "m", "n"], row_group_rows=2)
    assert (found["lower_bounds"][V], found["upper_bounds"][V]) == (b"m", b"n")


def test_column_of_nulls_has_counts_and_no_bounds(tmp_path: Path) -> None:
    found = write(tmp_path, StringType(), [None, None])
    assert found["null_value_counts"][V] == 2
    assert V not in found["lower_bounds"]


def test_bounds_of_long_text_are_truncated_outwards(tmp_path: Path) -> None:
    values = ["a" * 30, "b" * 30]
    found = write(tmp_path, StringType(), values)
    lower, upper = found["lower_bounds"][V].decode(), found["upper_bounds"][V].decode()
    assert len(lower) <= 16
    assert len(upper) <= 16
    assert lower <= min(values)
    assert upper >= max(values)


@pytest.mark.parametrize("last", ["\ud7ff", "\U0010ffff"])
def test_truncated_upper_bound_without_a_next_character_is_omitted_or_valid(
    tmp_path: Path, last: str
) -> None:
    text = last * 40
    found = write(tmp_path, StringType(), [text])
    upper = found["upper_bounds"].get(V)
    assert upper is None or upper.decode() >= text


def test_uuids_have_counts_but_no_bounds(tmp_path: Path) -> None:
    """Iceberg Java compares them as signed numbers (apache/iceberg#14216)."""
    found = write(tmp_path, UUIDType(), [b"\x00" * 16, b"\xff" * 16, None])
    assert V not in found["lower_bounds"]
    assert (found["value_counts"][V], found["null_value_counts"][V]) == (3, 1)
    column = pq.read_metadata(tmp_path / "f.parquet").row_group(0).column(1)
    assert not column.is_stats_set
    assert pq.read_metadata(tmp_path / "f.parquet").row_group(0).column(0).is_stats_set


@pytest.mark.parametrize("kind", [FloatType(), DoubleType()], ids=str)
def test_nans_are_counted(tmp_path: Path, kind: IcebergType) -> None:
    found = write(tmp_path, kind, [NAN, 1.0, None, NAN, -0.0])
    assert found["nan_value_counts"][V] == 2
    assert found["null_value_counts"][V] == 1


def test_absence_of_nans_is_counted_as_zero(tmp_path: Path) -> None:
    assert write(tmp_path, DoubleType(), [1.0, None])["nan_value_counts"][V] == 0


def test_nested_columns_are_written_and_counted(tmp_path: Path) -> None:
    inner = StructType(NestedField(5, "n", StringType(), required=False))
    values = [[{"n": "b"}, {"n": "a"}], None, []]
    found = write(tmp_path, ListType(4, inner, element_required=False), values)
    assert found["record_count"] == 3
    assert pq.read_table(tmp_path / "f.parquet")["v"].to_pylist() == values


@pytest.mark.parametrize("codec", ["zstd", "uncompressed"])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_every_flipped_bit_in_a_page_is_detected(tmp_path: Path, codec: str, version: str) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "v", StringType()))
    rows = pa.table({"id": range(40), "v": [f"{number % 5}" for number in range(40)]})
    properties = {"write.parquet.compression-codec": codec, "write.parquet.page-version": version}
    files = ParquetFileWriter(schema, properties)
    output = PyArrowFileIO().new_output(str(tmp_path / "f.parquet"))
    files.write(output, rows.cast(schema_to_pyarrow(schema)), files.new_sizer())
    assert unnoticed_flips(tmp_path / "f.parquet") == 0
