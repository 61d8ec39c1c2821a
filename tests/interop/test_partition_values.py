"""A row is written to the partition that Iceberg Java computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.cases import Case, make_with_one_merge
from tests.interop.iceberg_java import IcebergJava
from tests.oracle.value_pools import VALUE_COLUMNS

_NUMBERS = ("small", "big", "amount", "price")
_MOMENTS = ("day", "moment", "instant")
PARTITIONS = {
    "identity": ("flag", *_NUMBERS, "single", "double", *_MOMENTS, "clock"),
    "bucket": tuple(
        f"bucket[7]({name})" for name in (*_NUMBERS, *_MOMENTS, "text", "ref", "code", "blob", "id")
    ),
    "truncate": tuple(f"truncate[3]({name})" for name in (*_NUMBERS, "text", "id")),
    "years": ("year(day)", "month(moment)", "day(instant)"),
    "months": ("month(day)", "hour(moment)", "year(instant)"),
    "days": ("day(day)", "year(moment)", "hour(instant)"),
}


@pytest.mark.parametrize("name", PARTITIONS)
def test_partition_values_equal_those_of_iceberg_java(tmp_path: Path, java: IcebergJava, name: str) -> None:
    case = Case(name, "int", tuple(VALUE_COLUMNS), PARTITIONS[name], seed=51)
    stored, computed = java.partitions(make_with_one_merge(tmp_path, case).mirror)
    assert stored == computed
    assert len(stored) > 5


@pytest.mark.parametrize("partition", ["ref", "bucket[4](clock)", "truncate[3](blob)", "text"])
def test_mirror_supports_every_partition_of_iceberg(tmp_path: Path, partition: str) -> None:
    case = Case("one", "int", ("ref", "clock", "blob", "text"), (partition,), seed=52)
    world = make_with_one_merge(tmp_path, case)
    verdict = world.oracle.verdict(world.mirror)
    assert verdict.equal, verdict
