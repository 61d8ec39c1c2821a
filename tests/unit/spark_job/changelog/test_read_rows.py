from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from icemirror.errors import Corrupt
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.read_rows import read_rows
from spark_job.columns.field_map import mirror_schema
from tests.lab.lab import ID_AND_NAME, events, rows_table
from tests.oracle.value_pools import VALUE_COLUMNS
from tests.unit.spark_job.merge.samples import save


def schema_of(*columns: tuple[str, IcebergType]) -> Schema:
    return Schema(
        *(
            NestedField(position, name, kind, required=False)
            for position, (name, kind) in enumerate(columns, 1)
        )
    )


def read(
    io: PyArrowFileIO, files: Sequence[ChangelogFile], requested: Sequence[tuple[int, int]], changelog: Schema
) -> pa.Table:
    """Return the rows at (file, row) in the schema of a mirror of the current changelog."""
    row_ids = tuple(field.field_id for field in changelog.fields if not field.name.startswith("cdc_"))
    mirror, ids = mirror_schema(changelog, row_ids, ())
    file = np.array([file for file, _ in requested], np.uint32)
    row = np.array([row for _, row in requested], np.uint32)
    return read_rows(io, files, file, row, ids, mirror)


def test_rows_are_read_by_file_and_position(tmp_path: Path, io: PyArrowFileIO) -> None:
    files = [save(tmp_path, events("I1@1 I2@1 I3@1")), save(tmp_path, events("I4@1 I5@1"))]
    found = read(io, files, [(0, 0), (0, 2), (1, 1)], ID_AND_NAME)
    assert found["id"].to_pylist() == [1, 3, 5]


@pytest.mark.parametrize("row_group_size", [1, 7, 100])
def test_rows_are_read_across_row_groups(tmp_path: Path, io: PyArrowFileIO, row_group_size: int) -> None:
    table = events(" ".join(f"I{number}@1" for number in range(50)))
    file = save(tmp_path, table, row_group_size=row_group_size)
    requested = [0, 6, 7, 8, 20, 21, 49]
    assert read(io, [file], [(0, row) for row in requested], ID_AND_NAME)["id"].to_pylist() == requested


def test_rows_are_read_from_row_groups_of_unequal_size(tmp_path: Path, io: PyArrowFileIO) -> None:
    table = events(" ".join(f"I{number}@1" for number in range(12)))
    path = tmp_path / "unequal.parquet"
    with pq.ParquetWriter(path, table.schema) as writer:
        for start, length in ((0, 2), (2, 5), (7, 1), (8, 4)):
            writer.write_table(table.slice(start, length))
    file = ChangelogFile(str(path), 1, 12, 1, 1)
    requested = [1, 2, 6, 7, 8, 11]
    assert read(io, [file], [(0, row) for row in requested], ID_AND_NAME)["id"].to_pylist() == requested


def test_result_has_the_columns_and_field_ids_of_the_mirror(tmp_path: Path, io: PyArrowFileIO) -> None:
    changelog = schema_of(("id", LongType()), ("cdc_operation", StringType()), ("name", StringType()))
    file = save(tmp_path, rows_table(changelog, [{"id": 1, "cdc_operation": "I", "name": "x"}]))
    found = read(io, [file], [(0, 0)], changelog)
    assert found.schema.names == ["id", "name"]
    assert [field.metadata[b"PARQUET:field_id"] for field in found.schema] == [b"1", b"2"]


def test_position_beyond_the_file_is_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    file = save(tmp_path, events("I1@1 I2@1"))
    with pytest.raises(Corrupt, match="has 2 rows, but row 2 was requested"):
        read(io, [file], [(0, 2)], ID_AND_NAME)


@pytest.mark.parametrize("name", VALUE_COLUMNS)
def test_values_of_every_type_are_unchanged(tmp_path: Path, io: PyArrowFileIO, name: str) -> None:
    kind, values = VALUE_COLUMNS[name]
    changelog = schema_of(("id", LongType()), (name, kind))
    column = pa.array([*values, None], schema_to_pyarrow(changelog).field(name).type)
    table = pa.Table.from_arrays([pa.array(range(len(column))), column], schema=schema_to_pyarrow(changelog))
    found = read(io, [save(tmp_path, table)], [(0, row) for row in range(len(column))], changelog)
    assert repr(found[name].to_pylist()) == repr(column.to_pylist())  # repr distinguishes −0.0 and NaN


def test_null_list_of_structs_stays_null(tmp_path: Path, io: PyArrowFileIO) -> None:
    """PyIceberg's projection makes it an empty list (apache/iceberg-python#3833)."""
    part = StructType(NestedField(21, "n", LongType(), required=False))
    changelog = schema_of(("id", LongType()), ("parts", ListType(20, part, element_required=False)))
    values: list[Any] = [None, [], [None], [{"n": None}], [{"n": 1}]]
    table = rows_table(changelog, [{"id": 1, "parts": value} for value in values])
    found = read(io, [save(tmp_path, table)], [(0, row) for row in range(5)], changelog)
    assert found["parts"].to_pylist() == values


@pytest.mark.parametrize(
    ("kind", "bits", "code"),
    [(DoubleType(), 0x7FF800000000BEEF, "<Q"), (FloatType(), 0x7FC0BEEF, "<I")],
    ids=["double", "float"],
)
def test_bits_of_nan_and_minus_zero_are_kept(
    tmp_path: Path, io: PyArrowFileIO, kind: IcebergType, bits: int, code: str
) -> None:
    changelog = schema_of(("id", LongType()), ("v", kind))
    unsigned = np.uint64 if code == "<Q" else np.uint32
    sign = 1 << (struct.calcsize(code) * 8 - 1)
    raw = np.array([bits, sign | bits, sign, 0], unsigned)
    values = pa.array(raw.view(np.float64 if code == "<Q" else np.float32))
    table = pa.Table.from_arrays([pa.array([1, 2, 3, 4]), values], schema=schema_to_pyarrow(changelog))
    found = read(io, [save(tmp_path, table)], [(0, row) for row in range(4)], changelog)
    assert found["v"].to_numpy().view(unsigned).tolist() == raw.tolist()


def test_column_missing_in_an_older_file_is_null(tmp_path: Path, io: PyArrowFileIO) -> None:
    old = schema_of(("id", LongType()))
    new = schema_of(("id", LongType()), ("name", StringType()))
    files = [
        save(tmp_path, rows_table(old, [{"id": 1}])),
        save(tmp_path, rows_table(new, [{"id": 2, "name": "x"}])),
    ]
    assert read(io, files, [(0, 0), (1, 0)], new).to_pylist() == [
        {"id": 1, "name": None},
        {"id": 2, "name": "x"},
    ]


def test_renamed_column_is_found_by_field_id(tmp_path: Path, io: PyArrowFileIO) -> None:
    file = save(
        tmp_path, rows_table(schema_of(("id", LongType()), ("old", StringType())), [{"id": 1, "old": "x"}])
    )
    new = schema_of(("id", LongType()), ("new", StringType()))
    assert read(io, [file], [(0, 0)], new).to_pylist() == [{"id": 1, "new": "x"}]


def test_recreated_column_does_not_show_old_values(tmp_path: Path, io: PyArrowFileIO) -> None:
    file = save(
        tmp_path, rows_table(schema_of(("id", LongType()), ("name", StringType())), [{"id": 1, "name": "x"}])
    )
    recreated = Schema(NestedField(1, "id", LongType(), False), NestedField(9, "name", StringType(), False))
    assert read(io, [file], [(0, 0)], recreated).to_pylist() == [{"id": 1, "name": None}]


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        (IntegerType(), LongType(), -7),
        (FloatType(), DoubleType(), 1.5),
        (DecimalType(9, 2), DecimalType(18, 2), None),
    ],
    ids=str,
)
def test_values_of_an_older_file_are_promoted(
    tmp_path: Path, io: PyArrowFileIO, before: IcebergType, after: IcebergType, value: Any
) -> None:
    old, new = schema_of(("v", before)), schema_of(("v", after))
    files = [save(tmp_path, rows_table(old, [{"v": value}])), save(tmp_path, rows_table(new, [{"v": value}]))]
    assert read(io, files, [(0, 0), (1, 0)], new)["v"].to_pylist() == [value, value]


def _struct_of(*names: str) -> StructType:
    """Return fields 20, 21, … with these names; a name with a leading underscore is omitted and its id stays unused."""
    return StructType(
        *(
            NestedField(20 + position, name, StringType(), required=False)
            for position, name in enumerate(names)
            if not name.startswith("_")
        )
    )


def _wrapped_types(kind: IcebergType) -> dict[str, IcebergType]:
    return {
        "struct": kind,
        "list": ListType(40, kind, element_required=False),
        "map": MapType(41, StringType(), 42, kind, value_required=False),
    }


def _wrap_value(name: str, value: Any) -> Any:
    return {"struct": value, "list": [value], "map": [("k", value)]}[name]


@pytest.mark.parametrize("wrap", ["struct", "list", "map"])
def test_renamed_nested_field_is_found_by_field_id(tmp_path: Path, io: PyArrowFileIO, wrap: str) -> None:
    """Iceberg renames without rewriting files: the file keeps the old name."""
    old = Schema(NestedField(1, "p", _wrapped_types(_struct_of("floor", "shelf"))[wrap], required=False))
    new = Schema(NestedField(1, "p", _wrapped_types(_struct_of("floor", "rack"))[wrap], required=False))
    file = save(tmp_path, rows_table(old, [{"p": _wrap_value(wrap, {"floor": "1", "shelf": "s"})}]))
    found = read(io, [file], [(0, 0)], new)["p"].to_pylist()
    assert found == [_wrap_value(wrap, {"floor": "1", "rack": "s"})]


@pytest.mark.parametrize("wrap", ["struct", "list", "map"])
def test_nested_fields_that_swapped_their_names_keep_their_values(
    tmp_path: Path, io: PyArrowFileIO, wrap: str
) -> None:
    old = Schema(NestedField(1, "p", _wrapped_types(_struct_of("a", "b"))[wrap], required=False))
    new = Schema(NestedField(1, "p", _wrapped_types(_struct_of("b", "a"))[wrap], required=False))
    file = save(tmp_path, rows_table(old, [{"p": _wrap_value(wrap, {"a": "first", "b": "second"})}]))
    found = read(io, [file], [(0, 0)], new)["p"].to_pylist()
    assert found == [_wrap_value(wrap, {"b": "first", "a": "second"})]


@pytest.mark.parametrize("wrap", ["struct", "list", "map"])
def test_nested_field_missing_in_an_older_file_is_null(tmp_path: Path, io: PyArrowFileIO, wrap: str) -> None:
    old = Schema(NestedField(1, "p", _wrapped_types(_struct_of("floor"))[wrap], required=False))
    new = Schema(NestedField(1, "p", _wrapped_types(_struct_of("floor", "rack"))[wrap], required=False))
    rows = [{"p": _wrap_value(wrap, {"floor": "1"})}, {"p": None}]
    file = save(tmp_path, rows_table(old, rows))
    found = read(io, [file], [(0, 0), (0, 1)], new)["p"].to_pylist()
    assert found == [_wrap_value(wrap, {"floor": "1", "rack": None}), None]


@pytest.mark.parametrize("wrap", ["struct", "list", "map"])
def test_recreated_nested_field_does_not_show_old_values(
    tmp_path: Path, io: PyArrowFileIO, wrap: str
) -> None:
    old = Schema(NestedField(1, "p", _wrapped_types(_struct_of("floor", "shelf"))[wrap], required=False))
    new = Schema(NestedField(1, "p", _wrapped_types(_struct_of("floor", "_", "shelf"))[wrap], required=False))
    file = save(tmp_path, rows_table(old, [{"p": _wrap_value(wrap, {"floor": "1", "shelf": "old"})}]))
    found = read(io, [file], [(0, 0)], new)["p"].to_pylist()
    assert found == [_wrap_value(wrap, {"floor": "1", "shelf": None})]
