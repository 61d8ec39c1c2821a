"""Counts, sizes and bounds of data files equal those of Iceberg Java for the same rows, field by field."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from spark_job.write.data_files import write_rows
from tests.interop.iceberg_java import IcebergJava

ROWS = 40
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
_NAN, _INF = float("nan"), float("inf")
_CHARACTERS = "aZ é\u07ff\ud7ff\ue000\uffff\U00010000\U0010ffff\x00"
_NUMBERS = (
    [0.0, -0.0],
    [-0.0],
    [0.0, -0.0, -1.0],
    [-0.0, 1.0],
    [_NAN],
    [_NAN, 0.0],
    [_INF, -_INF, 1.5, _NAN],
)
_MODES = ("none", "counts", "full", "truncate(1)", "truncate(5)", "truncate(16)", "NONE", "Full", "nonsense")


class Rows:
    """A random schema with random rows."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.ids = iter(range(2, 1000))
        self.characters = list(_CHARACTERS)
        self.numbers = _NUMBERS[0]
        fields = [self.field(f"c{number}", 0) for number in range(self.rng.randrange(3, 9))]
        self.schema = Schema(NestedField(1, "id", LongType(), required=True), *fields)

    def field(self, name: str, depth: int) -> NestedField:
        return NestedField(next(self.ids), name, self.kind(depth), required=False)

    def kind(self, depth: int) -> IcebergType:
        rng = self.rng
        plain = [
            BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), DateType(), TimeType(),
            TimestampType(), TimestamptzType(), StringType(), StringType(), BinaryType(), BinaryType(), UUIDType(),
            FixedType(rng.choice([1, 3, 20])), DecimalType(rng.choice([1, 9, 10, 18, 19, 38]), 0),
            DecimalType(38, rng.choice([2, 38])),
        ]  # fmt: skip
        nested = rng.random() < 0.3 and depth < 3
        if not nested:
            kind = rng.choice(plain)
            # PyArrow does not support nested uuids.
            return BinaryType() if depth and isinstance(kind, UUIDType) else kind
        match rng.choice(["struct", "struct", "list", "map"]):
            case "struct":
                return StructType(
                    *(self.field(f"f{number}", depth + 1) for number in range(rng.randrange(1, 4)))
                )
            case "list":
                return ListType(next(self.ids), self.kind(depth + 1), element_required=False)
            case _:
                return MapType(
                    next(self.ids), StringType(), next(self.ids), self.kind(depth + 1), value_required=False
                )

    def table(self) -> pa.Table:
        arrow = schema_to_pyarrow(self.schema)
        columns = [pa.array(range(ROWS), pa.int64())]
        for field in self.schema.fields[1:]:
            nulls = self.rng.choice([0.0, 0.3, 0.3, 1.0])
            self.characters = self.rng.choices(_CHARACTERS, k=2)  # few, so that each is the maximum sometimes
            self.numbers = self.rng.choice(_NUMBERS)
            values = [self.value(field.field_type, nulls) for _ in range(ROWS)]
            columns.append(pa.array(values, arrow.field(field.name).type))
        return pa.Table.from_arrays(columns, schema=arrow)

    def value(self, kind: IcebergType, nulls: float) -> Any:
        rng = self.rng
        if rng.random() < nulls:
            return None
        match kind:
            case StructType(fields=fields):
                return {field.name: self.value(field.field_type, nulls) for field in fields}
            case ListType(element_type=element):
                return [self.value(element, nulls) for _ in range(rng.randrange(3))]
            case MapType(value_type=value_type):
                return [(f"k{number}", self.value(value_type, nulls)) for number in range(rng.randrange(3))]
            case BooleanType():
                return rng.random() < 0.9
            case IntegerType():
                return rng.choice([0, -1, 2**31 - 1, -(2**31), rng.randrange(100)])
            case LongType():
                return rng.choice([0, -1, 2**63 - 1, -(2**63), rng.randrange(100)])
            case FloatType() | DoubleType():
                return rng.choice(self.numbers)
            case DateType():
                return date(1970, 1, 1) + timedelta(days=rng.randrange(-700_000, 2_900_000))
            case TimeType():
                return time(rng.randrange(24), rng.randrange(60), 0, rng.randrange(10**6))
            case TimestampType() | TimestamptzType():
                return _EPOCH + timedelta(microseconds=rng.randrange(-(10**16), 10**17))
            case StringType():
                length = rng.choice([0, 1, 15, 16, 17, 40, 5000])
                return "".join(rng.choices(self.characters, k=length))
            case BinaryType():
                return rng.choice([b"\xff", b"\x00", b"\x7f", b"\x80"]) * rng.choice([0, 16, 17, 5000])
            case FixedType():
                return rng.randbytes(len(kind))
            case UUIDType():
                return rng.randbytes(16)
            case DecimalType(precision=precision, scale=scale):
                unscaled = rng.randrange(-(10**precision) + 1, 10**precision)
                return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))
        raise AssertionError(kind)

    def properties(self) -> dict[str, str]:
        rng = self.rng
        found = {}
        if rng.random() < 0.5:
            found["write.metadata.metrics.default"] = rng.choice(_MODES)
        if rng.random() < 0.4:
            found["write.metadata.metrics.max-inferred-column-defaults"] = str(rng.choice([0, 1, 3, 6, -1]))
        for name in self.schema.column_names:
            if rng.random() < 0.2:
                found[f"write.metadata.metrics.column.{name}"] = rng.choice(_MODES)
        return found


def nested_float_ids(schema: Schema) -> Iterator[int]:
    """Return the field ids of nested floating-point columns."""
    top_level = {field.field_id for field in schema.fields}
    for name in schema.column_names:
        field = schema.find_field(name)
        if field.field_id not in top_level and isinstance(field.field_type, FloatType | DoubleType):
            yield field.field_id


@pytest.mark.parametrize("seed", range(60))
def test_metrics_of_every_column_equal_those_of_iceberg_java(
    tmp_path: Path, java: IcebergJava, seed: int
) -> None:
    rows = Rows(seed)
    catalog = SqlCatalog("lab", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", rows.schema, properties=rows.properties())
    rows.schema = table.schema()  # the catalog assigns other ids
    (ours,) = write_rows(table.io, table.metadata, rows.table(), []).files
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(ours)
    compare(table, ours, java.rewrite(table).metrics, java)


def test_iceberg_java_finds_rows_through_bloom_filters(tmp_path: Path, java: IcebergJava) -> None:
    catalog = SqlCatalog("lab", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("ns")
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "v", StringType()))
    filtered = {f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in ("id", "v")}
    table = catalog.create_table("ns.t", schema, properties=filtered)
    arrow = schema_to_pyarrow(table.schema())
    rows = pa.table([pa.array(range(0, 2000, 2)), [f"é{number}" for number in range(1000)]], schema=arrow)
    (file,) = write_rows(table.io, table.metadata, rows, []).files
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(file)
    loaded = java.load(table)
    assert [java.count(loaded, "id", value) for value in (0, 998, 1998, 999)] == [1, 1, 1, 0]
    assert [java.count(loaded, "v", value) for value in ("é0", "é999", "é5x")] == [1, 1, 0]


def compare(table: Table, ours: DataFile, theirs: Any, java: IcebergJava) -> None:
    schema = table.schema()
    uuids = {
        schema.find_field(name).field_id
        for name in schema.column_names
        if isinstance(schema.find_field(name).field_type, UUIDType)
    }
    # Java does not count floats in rows whose struct is NULL (OptionWriter.metrics).
    # A reader that filters for NULL would skip the file, so our metrics count them.
    miscounted = set(nested_float_ids(schema))

    def named(values: Mapping[int, Any] | None, excluded: set[int]) -> dict[str, Any]:
        return {
            str(schema.find_column_name(number)): value
            for number, value in (values or {}).items()
            if number not in excluded
        }

    for metric, our_values, their_values, excluded in (
        ("values", ours.value_counts, java.counts(theirs.valueCounts()), miscounted),
        ("nulls", ours.null_value_counts, java.counts(theirs.nullValueCounts()), miscounted),
        ("nans", ours.nan_value_counts, java.counts(theirs.nanValueCounts()), set()),
        # Uuids have no bounds, because Java compares them as signed numbers (apache/iceberg#14216).
        ("lower", ours.lower_bounds, java.bounds(theirs.lowerBounds()), uuids),
        ("upper", ours.upper_bounds, java.bounds(theirs.upperBounds()), uuids),
    ):
        assert (metric, named(our_values, excluded)) == (metric, named(their_values, excluded))
    assert not uuids.intersection(ours.lower_bounds or {})
    # The sizes depend on the writer, but must exist for the same columns.
    assert named(ours.column_sizes, set()).keys() == named(java.counts(theirs.columnSizes()), set()).keys()
    counted = miscounted.intersection(ours.value_counts or {})
    assert all((ours.value_counts or {})[number] == ROWS for number in counted)
