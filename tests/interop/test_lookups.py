"""A row is found by its values: no reader skips its file, by partition or by bounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.expressions import EqualTo, IsNull

from icemirror.cli.demo.oracle.duckdb_oracle import connect_duckdb, quote
from icemirror.settings.partitioning import PartitionField
from tests.interop.cases import CASES, Case
from tests.interop.iceberg_java import IcebergJava
from tests.interop.spark_sql import SparkSql
from tests.mirrors import MirroredWorld
from tests.oracle.key_pools import KEY_KINDS

Made = Callable[[Case], MirroredWorld]
# Column, value, rows that have it.
Asked = tuple[str, Any, int]
MOST_VALUES = 5
WITH_UUIDS = CASES[1]


def live_values(lab: MirroredWorld, case: Case, kinds: Callable[[Any], bool]) -> list[Asked]:
    """Values of the key columns and of the partition columns."""
    rows = lab.world.expected_table()
    partitioned = [PartitionField.parse(field).column for field in case.partition_by]
    key = [name for name, _ in KEY_KINDS[case.key].columns]
    asked: list[Asked] = []
    for name in dict.fromkeys([*key, *partitioned, "text"]):
        counted = sorted(
            (item for item in Counter(rows[name].to_pylist()).items() if kinds(item[0])), key=repr
        )
        asked.extend((name, value, count) for value, count in counted[:MOST_VALUES])
    assert asked
    return asked


def comparable(value: object) -> bool:
    """Readers disagree on the equality of zeros, infinities and NaN."""
    return not isinstance(value, float) or (math.isfinite(value) and value != 0)


def is_uuid(value: object) -> bool:
    return isinstance(value, UUID)


def others(value: object) -> bool:
    return comparable(value) and not is_uuid(value)


def missed(asked: list[Asked], count: Callable[[str, Any], int]) -> list[str]:
    """Values whose number of matches differs from the number of rows."""
    found = [(name, value, wanted, count(name, value)) for name, value, wanted in asked]
    return [f"{name} = {value}: {n} of {wanted} rows" for name, value, wanted, n in found if n != wanted]


@pytest.mark.parametrize("case", [case for case in CASES if case.for_pyiceberg], ids=str)
def test_pyiceberg_finds_each_row(made: Made, case: Case) -> None:
    """But not by uuid: PyArrow has no comparison for it."""
    lab = made(case)
    mirror = lab.mirror

    def count(name: str, value: Any) -> int:
        # PyIceberg's constructors take more than their types say.
        wanted = IsNull(name) if value is None else EqualTo(name, value)  # type: ignore[call-arg,arg-type]
        return int(mirror.scan(row_filter=wanted, selected_fields=(name,)).to_arrow().num_rows)

    assert not missed(live_values(lab, case, others), count)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_duckdb_finds_each_row(made: Made, case: Case) -> None:
    lab = made(case)
    location = lab.mirror.metadata_location
    with connect_duckdb(iceberg=True) as duck:

        def count(name: str, value: Any) -> int:
            query = f"SELECT count(*) FROM iceberg_scan($at) WHERE {quote(name)} IS NOT DISTINCT FROM $value"
            return int(duck.execute(query, {"at": location, "value": value}).fetchone()[0])

        assert not missed(live_values(lab, case, comparable), count)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_iceberg_java_finds_each_row(made: Made, java: IcebergJava, case: Case) -> None:
    lab = made(case)
    table = java.load(lab.mirror)
    assert not missed(live_values(lab, case, others), lambda name, value: java.count(table, name, value))


def test_iceberg_java_finds_each_uuid(made: Made, java: IcebergJava) -> None:
    """It compares them as signed numbers, regardless of the order of a file's bounds (apache/iceberg#14216)."""
    lab = made(WITH_UUIDS)
    table = java.load(lab.mirror)
    assert not missed(
        live_values(lab, WITH_UUIDS, is_uuid), lambda name, value: java.count(table, name, value)
    )


def test_spark_finds_each_uuid(made: Made, java: IcebergJava) -> None:
    lab = made(WITH_UUIDS)
    spark = SparkSql.on(java, lab)

    def count(name: str, value: Any) -> int:
        return int(spark.session.sql(f"SELECT * FROM {spark.mirror} WHERE {name} = '{value}'").count())

    asked = live_values(lab, WITH_UUIDS, is_uuid)[:3]
    assert not missed(asked, lambda name, value: count(f"lower({name})", value)), (
        "the way round it, of the docs"
    )
    assert not missed(asked, count)
