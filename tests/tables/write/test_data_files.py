from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from icemirror.errors import Invalid
from icemirror.settings.partitioning import PartitionField as PartitionBy
from spark_job.iceberg.create import build_partition_spec
from spark_job.write.data_files import WrittenRows, write_rows
from spark_job.write.parquet_writer import ParquetFileWriter
from tests.lab.lab import local_path

Make = Callable[..., Table]
NAN, INF = float("nan"), float("inf")


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """`make(kind, "bucket[4](v)")` returns a table of id and v."""
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("ns")

    def create(kind: IcebergType, *partition_by: str) -> Table:
        schema = Schema(
            NestedField(1, "id", LongType(), required=True), NestedField(2, "v", kind, required=False)
        )
        spec = build_partition_spec("t", [PartitionBy.parse(text) for text in partition_by], schema)
        return catalog.create_table("ns.t", schema, partition_spec=spec)

    return create


def write(table: Table, values: Sequence[Any]) -> WrittenRows:
    schema = schema_to_pyarrow(table.schema())
    columns = [pa.array(range(len(values)), pa.int64()), pa.array(values, schema.field("v").type)]
    return write_rows(table.io, table.metadata, pa.Table.from_arrays(columns, schema=schema), [])


def ids_by_position(written: WrittenRows) -> dict[tuple[int, int], int]:
    """Return (file, position) → id, as an ordinary reader reads the files."""
    ids_by_location = {}
    for ordinal, file in enumerate(written.files):
        ids = pq.read_table(local_path(file.file_path))["id"].to_pylist()
        assert len(ids) == file.record_count
        ids_by_location.update({(ordinal, position): number for position, number in enumerate(ids)})
    return ids_by_location


def check_positions(written: WrittenRows, count: int) -> None:
    """Check that every row is at the reported position, and nowhere else."""
    locations = zip(written.file.tolist(), written.pos.tolist(), strict=True)
    assert dict(zip(locations, range(count), strict=True)) == ids_by_position(written)


def test_unpartitioned_rows_are_one_file_in_their_order(make: Make) -> None:
    written = write(make(StringType()), ["a", "b", "c"])
    assert len(written.files) == 1
    assert (written.file.tolist(), written.pos.tolist()) == ([0, 0, 0], [0, 1, 2])
    check_positions(written, 3)


def test_positions_are_correct_after_partitioning(make: Make) -> None:
    values = ["b", "a", None, "b", "c", "a", None, "b"]
    written = write(make(StringType(), "v"), values)
    assert len(written.files) == 4
    check_positions(written, len(values))
    for ordinal, file in enumerate(written.files):
        partition_values = {values[at] for at in range(len(values)) if written.file[at] == ordinal}
        assert partition_values == {file.partition[0]}


def test_rows_of_a_partition_stay_in_their_order(make: Make) -> None:
    written = write(make(IntegerType(), "v"), [1, 2] * 50)
    for ordinal in (0, 1):
        assert written.pos[written.file == ordinal].tolist() == list(range(50))


_INSTANT = dt.datetime(2020, 2, 29, 13, 14, 15, 161718, tzinfo=dt.UTC)
_TIMESTAMP = _INSTANT.replace(tzinfo=None)
_BEFORE_EPOCH = dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC).replace(tzinfo=None)
PARTITIONS: dict[str, tuple[IcebergType, list[Any], list[Any]]] = {
    # expression: type, values, their partitions (years, months, days and hours since 1970, as in Iceberg)
    "v": (StringType(), ["", "a/b?=é", None], ["", "a/b?=é", None]),
    "truncate[2](v)": (StringType(), ["abc", "🎁🎁🎁", "x", None], ["ab", "🎁🎁", "x", None]),
    "year(v)": (TimestampType(), [_TIMESTAMP, _BEFORE_EPOCH, None], [50, -1, None]),
    "month(v)": (TimestamptzType(), [_INSTANT, None], [601, None]),
    "day(v)": (TimestampType(), [_TIMESTAMP, _BEFORE_EPOCH], [18321, -1]),
    "hour(v)": (TimestampType(), [_TIMESTAMP, _BEFORE_EPOCH], [439717, -1]),
    "day(v) of a date": (DateType(), [dt.date(2020, 2, 29), dt.date(1969, 12, 31)], [18321, -1]),
    "v of a date": (DateType(), [dt.date(2020, 2, 29), None], [18321, None]),
    "v of a time": (TimeType(), [dt.time(0, 0, 1), None], [1_000_000, None]),
    "v of a boolean": (BooleanType(), [True, False, None], [True, False, None]),
    "v of a decimal": (
        DecimalType(9, 2),
        [Decimal("1.50"), Decimal("-1.50")],
        [Decimal("1.50"), Decimal("-1.50")],
    ),
    "truncate[50](v) of a decimal": (
        DecimalType(9, 2),
        [Decimal("1.75"), Decimal("-0.01")],
        [Decimal("1.50"), Decimal("-0.50")],
    ),
    "truncate[10](v) of an int": (IntegerType(), [17, -1, None], [10, -10, None]),
    "bucket[16](v)": (LongType(), [34], [3]),  # examples of the specification, Appendix B, modulo 16
    "bucket[16](v) of a string": (StringType(), ["iceberg"], [9]),
    "bucket[100](v) of a uuid": (UUIDType(), [bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")], [40]),
    "v of a fixed": (FixedType(3), [b"\x00a\xff", None], [b"\x00a\xff", None]),
    "v of a binary": (BinaryType(), [b"", b"\x00\xff", None], [b"", b"\x00\xff", None]),
    "v of a uuid": (UUIDType(), [b"\x01" * 16, None], [b"\x01" * 16, None]),
}


@pytest.mark.parametrize("expression", PARTITIONS)
def test_row_is_written_to_the_partition_of_its_value(make: Make, expression: str) -> None:
    kind, values, partitions = PARTITIONS[expression]
    table = make(kind, expression.split(" ")[0])
    written = write(table, values * 2)
    check_positions(written, 2 * len(values))
    partitions_found = [written.files[written.file[at]].partition[0] for at in range(len(values))]
    assert [_without_wrapper(value) for value in partitions_found] == partitions
    assert {file.spec_id for file in written.files} == {table.metadata.default_spec_id}


def _without_wrapper(value: Any) -> Any:
    return value.bytes if hasattr(value, "bytes") and hasattr(value, "fields") else value


@pytest.mark.parametrize(
    ("kind", "expression", "value"),
    [(TimeType(), "bucket[8](v)", dt.time(1, 2, 3)), (BinaryType(), "truncate[1](v)", b"\x00\xff")],
    ids=str,
)
def test_partition_is_supported_or_refused_when_the_mirror_is_created(
    make: Make, kind: IcebergType, expression: str, value: Any
) -> None:
    """PyIceberg does not support these partitions."""
    try:
        table = make(kind, expression)
    except Invalid:
        return
    check_positions(write(table, [value, None]), 2)


def test_nan_and_both_zeros_have_a_partition(make: Make) -> None:
    values = [0.0, -0.0, float("nan"), float("nan"), None, 1.5]
    check_positions(write(make(DoubleType(), "v"), values), len(values))


def test_several_partition_fields_give_one_file_per_combination(make: Make) -> None:
    table = make(IntegerType(), "bucket[4](id)", "v")
    written = write(table, [1, 2] * 20)
    check_positions(written, 40)
    assert len({file.partition for file in written.files}) == len(written.files)
    assert sum(file.record_count for file in written.files) == 40


TEXTS: dict[str, Callable[[random.Random], str]] = {
    "random": lambda rng: rng.randbytes(40).hex(),
    "repeated": lambda rng: "abcdefgh" * 10 + str(rng.randrange(100_000)),
    "short or long": lambda rng: "x" * rng.randrange(10) + rng.randbytes(rng.choice([1, 200])).hex(),
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("target", [60_000, 200_000])
def test_files_have_the_target_size_for_any_compression_ratio(make: Make, text: str, target: int) -> None:
    table = make(StringType())
    rng = random.Random(7)
    transaction = table.transaction().set_properties({"write.target-file-size-bytes": str(target)})
    values = [TEXTS[text](rng) for _ in range(60_000)]
    written = write(transaction.commit_transaction(), values)
    sizes = [file.file_size_in_bytes for file in written.files]
    assert sizes == [local_path(file.file_path).stat().st_size for file in written.files]
    assert len(sizes) > 1
    assert all(0.7 * target <= size <= 1.3 * target for size in sizes[:-1])
    assert sizes[-1] <= 1.3 * target
    check_positions(written, len(values))


def test_row_groups_have_the_configured_size(make: Make) -> None:
    table = make(StringType())
    transaction = table.transaction().set_properties({"write.parquet.row-group-size-bytes": "200000"})
    rng = random.Random(7)
    (file,) = write(transaction.commit_transaction(), [rng.randbytes(40).hex() for _ in range(30_000)]).files
    footer = pq.read_metadata(local_path(file.file_path))
    sizes = [
        sum(footer.row_group(group).column(column).total_compressed_size for column in (0, 1))
        for group in range(footer.num_row_groups)
    ]
    assert len(sizes) > 3
    assert all(140_000 <= size <= 260_000 for size in sizes[:-1])
    assert file.split_offsets is not None
    assert file.split_offsets == sorted(file.split_offsets)
    assert len(file.split_offsets) == len(sizes)


@pytest.mark.parametrize(
    ("direction", "nulls", "expected"),
    [
        (SortDirection.ASC, NullOrder.NULLS_FIRST, [None, -INF, -1.0, -0.0, 0.0, 2.0, INF, NAN]),
        (SortDirection.DESC, NullOrder.NULLS_LAST, [NAN, INF, 2.0, 0.0, -0.0, -1.0, -INF, None]),
        (SortDirection.ASC, NullOrder.NULLS_LAST, [-INF, -1.0, -0.0, 0.0, 2.0, INF, NAN, None]),
        (SortDirection.DESC, NullOrder.NULLS_FIRST, [None, NAN, INF, 2.0, 0.0, -0.0, -1.0, -INF]),
    ],
)
def test_rows_of_a_file_have_the_sort_order_of_the_table(
    make: Make, direction: SortDirection, nulls: NullOrder, expected: list[float | None]
) -> None:
    table = sort_by(make(DoubleType()), SortField(2, IdentityTransform(), direction, nulls))
    values = [2.0, None, NAN, 0.0, -INF, -0.0, INF, -1.0]
    written = write(table, values)
    (file,) = written.files
    check_positions(written, len(values))
    assert repr(pq.read_table(local_path(file.file_path))["v"].to_pylist()) == repr(expected)
    assert file.sort_order_id == table.metadata.default_sort_order_id == 1


def test_sort_order_by_transforms_holds_within_each_partition(make: Make) -> None:
    table = sort_by(
        make(StringType(), "bucket[3](id)"),
        SortField(2, TruncateTransform(1), SortDirection.DESC, NullOrder.NULLS_LAST),
        SortField(1, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST),
    )
    values = [f"{'abc'[number % 3]}{number}" for number in range(60)]
    written = write(table, values)
    check_positions(written, len(values))
    for file in written.files:
        rows = pq.read_table(local_path(file.file_path)).to_pylist()
        assert rows == sorted(rows, key=lambda row: (row["v"][0], row["id"]), reverse=True)


def test_files_sorted_by_uuid_have_no_sort_order_id(make: Make) -> None:
    """Iceberg Java orders uuids differently (apache/iceberg#14216)."""
    table = sort_by(
        make(UUIDType()), SortField(2, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_LAST)
    )
    written = write(table, [b"\xff" * 16, b"\x00" * 16])
    assert written.files[0].sort_order_id is None
    check_positions(written, 2)


def test_many_partitions_are_written_with_few_files_open(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(IntegerType(), "v")
    open_now, max_open = 0, 0
    original_write = ParquetFileWriter.write

    def write_and_count(*arguments: Any) -> dict[str, Any]:
        nonlocal open_now, max_open
        open_now += 1
        max_open = max(max_open, open_now)
        try:
            return original_write(*arguments)
        finally:
            open_now -= 1

    monkeypatch.setattr(ParquetFileWriter, "write", write_and_count)
    values = [number % 100 for number in range(1000)]
    written = write(table, values)
    assert len(written.files) == 100
    assert max_open <= 4
    check_positions(written, len(values))


def sort_by(table: Table, *fields: SortField) -> Table:
    order = SortOrder(*fields, order_id=1)
    metadata = table.metadata.model_copy(update={"sort_orders": [order], "default_sort_order_id": 1})
    table.metadata = metadata
    return table


def test_target_smaller_than_a_row_gives_one_file_per_row(make: Make) -> None:
    table = make(StringType())
    table = table.transaction().set_properties({"write.target-file-size-bytes": "1"}).commit_transaction()
    written = write(table, ["abc", "def"])
    assert [file.record_count for file in written.files] == [1, 1]
    check_positions(written, 2)


def test_file_entry_has_size_and_statistics(make: Make) -> None:
    (file,) = write(make(StringType()), ["b", "a", None]).files
    assert file.file_size_in_bytes == local_path(file.file_path).stat().st_size
    assert (file.lower_bounds[2], file.upper_bounds[2]) == (b"a", b"b")
    assert file.null_value_counts[2] == 1


def test_writer_properties_of_the_table_are_used(make: Make) -> None:
    table = make(StringType())
    properties = {"write.parquet.compression-codec": "gzip", "write.parquet.row-group-limit": "10"}
    table = table.transaction().set_properties(properties).commit_transaction()
    (file,) = write(table, ["a"] * 25).files
    footer = pq.read_metadata(local_path(file.file_path))
    assert footer.num_row_groups == 3
    assert footer.row_group(0).column(0).compression == "GZIP"


def test_field_ids_are_in_the_file(make: Make) -> None:
    (file,) = write(make(StringType()), ["a"]).files
    schema = pq.read_schema(local_path(file.file_path))
    assert [field.metadata[b"PARQUET:field_id"] for field in schema] == [b"1", b"2"]
