"""Readers find a row by its values: none skips its file because of partitions or bounds."""

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
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.key_pools import KEY_KINDS

SharedMirror = Callable[[Case], MirroredWorld]
# Column, value, number of rows with it.
Lookup = tuple[str, Any, int]
MAX_VALUES = 5
WITH_UUIDS = CASES[1]


def live_values(world: MirroredWorld, case: Case, matches_kind: Callable[[Any], bool]) -> list[Lookup]:
    """Return values of the key and partition columns with their number of rows."""
    rows = world.oracle.expected_table()
    partitioned = [PartitionField.parse(field).column for field in case.partition_by]
    key = [name for name, _ in KEY_KINDS[case.key].columns]
    lookups: list[Lookup] = []
    for name in dict.fromkeys([*key, *partitioned, "text"]):
        counted = sorted(
            (item for item in Counter(rows[name].to_pylist()).items() if matches_kind(item[0])), key=repr
        )
        lookups.extend((name, value, count) for value, count in counted[:MAX_VALUES])
    assert lookups
    return lookups


def comparable(value: object) -> bool:
    """Exclude zeros, infinities and NaN, on whose equality readers disagree."""
    return not isinstance(value, float) or (math.isfinite(value) and value != 0)


def is_uuid(value: object) -> bool:
    return isinstance(value, UUID)


def comparable_non_uuid(value: object) -> bool:
    return comparable(value) and not is_uuid(value)


def missed(lookups: list[Lookup], count: Callable[[str, Any], int]) -> list[str]:
    """Return the values whose number of matches differs from the number of rows."""
    found = [(name, value, expected, count(name, value)) for name, value, expected in lookups]
    return [
        f"{name} = {value}: {found_rows} of {expected} rows"
        for name, value, expected, found_rows in found
        if found_rows != expected
    ]


@pytest.mark.parametrize("case", [case for case in CASES if case.for_pyiceberg], ids=str)
def test_pyiceberg_finds_each_row(shared_mirror: SharedMirror, case: Case) -> None:
    """Except by uuid, for which PyArrow has no comparison."""
    world = shared_mirror(case)
    mirror = world.mirror

    def count(name: str, value: Any) -> int:
        # PyIceberg's constructors accept more than their type hints.
        expected = IsNull(name) if value is None else EqualTo(name, value)  # type: ignore[call-arg,arg-type]
        return int(mirror.scan(row_filter=expected, selected_fields=(name,)).to_arrow().num_rows)

    assert not missed(live_values(world, case, comparable_non_uuid), count)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_duckdb_finds_each_row(shared_mirror: SharedMirror, case: Case) -> None:
    world = shared_mirror(case)
    location = world.mirror.metadata_location
    with connect_duckdb(iceberg=True) as duck:

        def count(name: str, value: Any) -> int:
            query = f"SELECT count(*) FROM iceberg_scan($location) WHERE {quote(name)} IS NOT DISTINCT FROM $value"
            return int(duck.execute(query, {"location": location, "value": value}).fetchone()[0])

        assert not missed(live_values(world, case, comparable), count)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_iceberg_java_finds_each_row(shared_mirror: SharedMirror, java: IcebergJava, case: Case) -> None:
    world = shared_mirror(case)
    table = java.load(world.mirror)
    assert not missed(
        live_values(world, case, comparable_non_uuid), lambda name, value: java.count(table, name, value)
    )


def test_iceberg_java_finds_each_uuid(shared_mirror: SharedMirror, java: IcebergJava) -> None:
    """It compares them as signed numbers, regardless of the order of a file's bounds (apache/iceberg#14216)."""
    world = shared_mirror(WITH_UUIDS)
    table = java.load(world.mirror)
    assert not missed(
        live_values(world, WITH_UUIDS, is_uuid), lambda name, value: java.count(table, name, value)
    )


def test_spark_finds_each_uuid(shared_mirror: SharedMirror, java: IcebergJava) -> None:
    world = shared_mirror(WITH_UUIDS)
    spark = SparkSql.on(java, world)

    def count(name: str, value: Any) -> int:
        return int(spark.session.sql(f"SELECT * FROM {spark.mirror} WHERE {name} = '{value}'").count())

    lookups = live_values(world, WITH_UUIDS, is_uuid)[:3]
    assert not missed(lookups, lambda name, value: count(f"lower({name})", value)), (
        "the workaround in the docs"
    )
    assert not missed(lookups, count)
