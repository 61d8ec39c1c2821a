"""A row is written to the partition where Iceberg Java expects it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.cases import Case, make_at_once
from tests.interop.iceberg_java import IcebergJava
from tests.oracle.value_pools import VALUE_COLUMNS

_NUMBERS = ("small", "big", "amount", "price")
_MOMENTS = ("day", "moment", "instant")
TOGETHER = {
    "identity": ("flag", *_NUMBERS, "single", "double", *_MOMENTS, "clock"),
    "bucket": tuple(
        f"bucket[7]({name})" for name in (*_NUMBERS, *_MOMENTS, "text", "ref", "code", "blob", "id")
    ),
    "truncate": tuple(f"truncate[3]({name})" for name in (*_NUMBERS, "text", "id")),
    "years": ("year(day)", "month(moment)", "day(instant)"),
    "months": ("month(day)", "hour(moment)", "year(instant)"),
    "days": ("day(day)", "year(moment)", "hour(instant)"),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_partition_values_are_those_of_iceberg_java(tmp_path: Path, java: IcebergJava, name: str) -> None:
    case = Case(name, "int", tuple(VALUE_COLUMNS), TOGETHER[name], seed=51)
    said, computed = java.partitions(make_at_once(tmp_path, case).mirror)
    assert said == computed
    assert len(said) > 5


@pytest.mark.parametrize("partition", ["ref", "bucket[4](clock)", "truncate[3](blob)", "text"])
def test_every_partition_that_iceberg_defines_can_be_mirrored(tmp_path: Path, partition: str) -> None:
    case = Case("one", "int", ("ref", "clock", "blob", "text"), (partition,), seed=52)
    lab = make_at_once(tmp_path, case)
    verdict = lab.world.verdict(lab.mirror)
    assert verdict.equal, verdict
