"""Every transform on every type: rows with extreme values are in the partition that Iceberg Java computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import StaticTable, Table
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from icemirror.cli.demo.oracle.duckdb_oracle import connect_duckdb
from tests.interop.iceberg_java import IcebergJava
from tests.interop.type_lab import table_of
from tests.interop.type_samples import (
    BLOBS,
    CLOCKS,
    DAYS,
    DECIMALS,
    FAR_DAYS,
    FAR_MOMENTS,
    INF,
    INT,
    LONG,
    MOMENTS,
    NAN,
    NANOS,
    TEXTS,
    UUIDS,
    Column,
)
from tests.lab.lab import Lab, changelog_schema, sequence_text

_INTS = (0, 1, -1, 7, -7, 100, -100, -INT, INT - 1)
_LONGS = (0, 1, -1, 7, -7, 2**32, -(2**32), -LONG, LONG - 1)
_ALL_DAYS, _ALL_MOMENTS = (*DAYS, *FAR_DAYS), (*MOMENTS, *FAR_MOMENTS)

PLAIN: dict[str, Column] = {
    "flag": Column(BooleanType(), (True, False)),
    "small": Column(IntegerType(), _INTS),
    "big": Column(LongType(), _LONGS),
    "single": Column(FloatType(), (0.0, -0.0, 1.5, NAN, INF, -INF)),
    "double": Column(DoubleType(), (0.0, -0.0, 0.1, NAN, INF, -INF)),
    **{
        f"d{precision}": column
        for precision, column in enumerate(DECIMALS, 1)
        if precision in (1, 2, 9, 10, 18, 19, 37, 38)
    },
    "day": Column(DateType(), _ALL_DAYS),
    "clock": Column(TimeType(), CLOCKS),
    "moment": Column(TimestampType(), _ALL_MOMENTS),
    "instant": Column(TimestamptzType(), _ALL_MOMENTS),
    "text": Column(StringType(), TEXTS),
    "ref": Column(UUIDType(), UUIDS),
    "code": Column(FixedType(3), (b"\x00\x00\x00", b"abc", b"\xff\x00\xff")),
    "blob": Column(BinaryType(), BLOBS),
}
NANO: dict[str, Column] = {
    "nano": Column(TimestampNanoType(), NANOS),
    "nanotz": Column(TimestamptzNanoType(), NANOS),
}
_DECIMALS = tuple(name for name in PLAIN if name[1:].isdigit())
_BUCKETED = ("small", "big", *_DECIMALS, "day", "clock", "moment", "instant", "text", "ref", "code", "blob")
_TRUNCATED = ("small", "big", *_DECIMALS, "text", "blob")


def _times(columns: dict[str, Column]) -> tuple[dict[str, Column], tuple[str, ...]]:
    """Return one column per time transform, because Iceberg allows only one per column."""
    time_columns: dict[str, Column] = {}
    partitions: list[str] = []
    for name, column in columns.items():
        units = (
            ("year", "month", "day")
            if isinstance(column.kind, DateType)
            else ("year", "month", "day", "hour")
        )
        for unit in units:
            values = column.values
            if unit == "hour" and column.values is _ALL_MOMENTS:
                values = (*MOMENTS, *FAR_MOMENTS[1:-1])  # hours of the others exceed an int
            time_columns[f"{name}_of_{unit}"] = Column(column.kind, values)
            partitions.append(f"{unit}({name}_of_{unit})")
    return time_columns, tuple(partitions)


_TIMES = _times({name: PLAIN[name] for name in ("day", "moment", "instant")})
_NANO_TIMES = _times(NANO)

# Columns, partitions, format version.
SPECS: dict[str, tuple[dict[str, Column], tuple[str, ...], int]] = {
    # Not by a fixed column: Iceberg Java misreads such partitions, even in tables that it wrote (apache/iceberg#17501).
    "identity": (PLAIN, tuple(name for name in PLAIN if name != "code"), 2),
    "bucket[7]": (PLAIN, tuple(f"bucket[7]({name})" for name in _BUCKETED), 2),
    "bucket[1000]": (PLAIN, tuple(f"bucket[1000]({name})" for name in _BUCKETED), 3),
    "truncate[3]": (PLAIN, tuple(f"truncate[3]({name})" for name in _TRUNCATED), 2),
    "truncate[10]": (PLAIN, ("truncate[10](small)", "truncate[10](big)", "truncate[1](text)"), 3),
    "times": (*_TIMES, 2),
    "nanosecond times": (*_NANO_TIMES, 3),
    # Not identity by nanoseconds: see test_no_reader_reads_identity_partitions_by_nanoseconds.
    "nanosecond buckets": (NANO, ("bucket[1000](nano)", "bucket[7](nanotz)"), 3),
}


def mirror_values(
    folder: Path, columns: dict[str, Column], partitions: tuple[str, ...], version: int, key: str = "id"
) -> Table:
    """Return a mirror after one merge; its rows contain every value of each column, including NULL."""
    kinds: list[tuple[str, IcebergType]] = [(name, column.kind) for name, column in columns.items()]
    schema = changelog_schema(*({"id": LongType()} | dict(kinds)).items(), keys=(key,))
    required_version = max(kind.minimum_format_version() for _, kind in kinds)
    folder.mkdir(exist_ok=True)
    options = f"format_version: {version}\ncompact: false\npartition_by: {list(partitions)}"
    lab = Lab.make(folder, schema, options=options, changelog_version=max(2, required_version))
    values = {
        name: column.values if name == key else (*column.values, None) for name, column in columns.items()
    }
    count = max(map(len, values.values()))
    cdc = {"cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
    rows: list[dict[str, Any]] = [
        {"id": row, **{name: cells[row % len(cells)] for name, cells in values.items()}, **cdc}
        for row in range(count)
    ]
    lab.commit(table_of(rows, schema_to_pyarrow(lab.changelog.schema())))
    lab.merge()
    return lab.mirror


@pytest.mark.parametrize("name", SPECS)
def test_partition_values_of_extreme_values_equal_those_of_iceberg_java(
    tmp_path: Path, java: IcebergJava, name: str
) -> None:
    columns, partitions, version = SPECS[name]
    stored, computed = java.partitions(mirror_values(tmp_path, columns, partitions, version))
    assert stored == computed
    assert len(stored) > 5


def test_rows_partitioned_by_uuid_are_found_by_it(tmp_path: Path, java: IcebergJava) -> None:
    """Readers disagree on the order of uuids (apache/iceberg#14216), and therefore on the bounds in manifests."""
    mirror = mirror_values(tmp_path, {"ref": PLAIN["ref"]}, ("ref",), 2, key="ref")
    table = java.load(mirror)
    uuids = [UUID(bytes=value) for value in UUIDS]
    assert [java.count(table, "ref", uuid) for uuid in uuids] == [1] * len(uuids)
    with connect_duckdb(iceberg=True) as duck:
        query = "SELECT count(*) FROM iceberg_scan($location) WHERE ref = $ref"
        found = [
            duck.execute(query, {"location": mirror.metadata_location, "ref": uuid}).fetchone()[0]
            for uuid in uuids
        ]
    assert found == [1] * len(uuids)
    assert sorted(mirror.scan().to_arrow()["ref"].to_pylist()) == sorted(uuids)


@pytest.mark.parametrize("order", [1, -1])
def test_rows_partitioned_by_zero_and_negative_zero_are_found_by_them(
    tmp_path: Path, java: IcebergJava, order: int
) -> None:
    """Iceberg orders −0.0 before 0.0; in Python they are equal."""
    zeros = (0.0, -0.0)[::order]
    mirror = mirror_values(tmp_path, {"double": Column(DoubleType(), (*zeros, NAN))}, ("double",), 2)
    table = java.load(mirror)
    assert [java.count(table, "double", value) for value in (0.0, -0.0, None)] == [1, 1, 1]


def test_no_reader_reads_identity_partitions_by_nanoseconds(tmp_path: Path, java: IcebergJava) -> None:
    """Even in a table of Iceberg Java, Java fails to cast the value and PyIceberg cannot read the manifest."""
    nano = Column(TimestampNanoType(), NANOS[:1])
    plain = mirror_values(tmp_path / "plain", {"nano": nano}, ("bucket[1](nano)",), 3, key="nano")
    theirs = StaticTable.from_metadata(java.copy(plain, ("id", "nano"), tmp_path / "theirs", "nano"))
    with pytest.raises(Py4JJavaError, match="ClassCastException"):
        java.rewrite(theirs)
    with pytest.raises(ValueError, match="timestamp-nanos"):
        theirs.scan().to_arrow()
