"""Every reader reads the same rows from a mirror whose data files predate its columns."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from icemirror.cli.demo.oracle.duckdb_oracle import connect_duckdb
from tests.interop.iceberg_java import IcebergJava
from tests.lab.column_changes import assert_sound, change_columns, commit_events
from tests.lab.lab import Lab, changelog_schema

SHOP = changelog_schema(
    ("id", IntegerType()),
    ("region", StringType()),
    ("n", IntegerType()),
    ("f", FloatType()),
    ("d", DecimalType(5, 2)),
    ("note", StringType()),
    ("home", StructType(NestedField(50, "zip", IntegerType()), NestedField(51, "city", StringType()))),
)
PARTITIONS = (
    "",
    'partition_by: ["region"]',
    'partition_by: ["n"]',
    'partition_by: ["d"]',
    'partition_by: ["bucket[4](n)"]',
)


def make(folder: Path, version: int, partition: str) -> tuple[Lab, list[dict[str, Any]]]:
    """Return a mirror with all schema changes, with rows before, between and after them, and the expected rows."""
    lab = Lab.make(folder, SHOP, options=f"format_version: {version}\ncompact: false\n{partition}")
    old = {"region": "eu", "n": 2**31 - 1, "f": 1.5, "d": Decimal("123.45"), "note": "old"}
    commit_events(lab, "I1@1", "I2@1", "I3@1", **old, home={"zip": 1, "city": "A"})
    lab.merge()
    change_columns(
        lab,
        lambda to: to.rename_column("region", "area"),
        lambda to: to.update_column("id", LongType()),
        lambda to: to.update_column("n", LongType()),
        lambda to: to.update_column("f", DoubleType()),
        lambda to: to.update_column("d", DecimalType(20, 2)),
        lambda to: to.delete_column("note"),
        lambda to: to.rename_column(("home", "city"), "town"),
        lambda to: to.add_column(("home", "street"), StringType()),
    )
    change_columns(lab, lambda to: to.add_column("note", LongType()), lambda to: to.move_first("d"))
    new = {"area": "us", "n": 2**40, "f": 1e300, "d": Decimal("123456789012345678.90"), "note": 7}
    commit_events(lab, "U1@2", "D3@2", f"I{2**40}@2", **new, home={"zip": 2, "town": "B", "street": "S"})
    lab.merge()
    commit_events(lab, "U1@3", **new, home=None)
    lab.merge()
    assert_sound(lab)
    unchanged = {"area": "eu", "n": 2**31 - 1, "f": 1.5, "d": Decimal("123.45"), "note": None}
    return lab, [
        {"id": 1, **new, "home": None, "note_dropped_6": None},
        {
            "id": 2,
            **unchanged,
            "home": {"zip": 1, "town": "A", "street": None},
            "note_dropped_6": "old",
        },
        {
            "id": 2**40,
            **new,
            "home": {"zip": 2, "town": "B", "street": "S"},
            "note_dropped_6": None,
        },
    ]


def plain(rows: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.to_pylist()
    return sorted(found, key=lambda row: int(row["id"]))


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("version", [2, 3])
def test_readers_agree_on_a_mirror_with_changed_columns(
    tmp_path: Path, java: IcebergJava, version: int, partition: str
) -> None:
    lab, expected = make(tmp_path, version, partition)
    mirror = lab.mirror
    assert plain(mirror.scan().to_arrow()) == expected
    assert plain(java.rewrite(mirror).rows) == expected
    with connect_duckdb(iceberg=True) as duck:
        found = duck.execute(f"FROM iceberg_scan('{mirror.metadata_location}')").to_arrow_table()
    assert plain(found) == expected
    assert java.count(java.load(mirror), "n", 2**31 - 1) == 1
    assert java.count(java.load(mirror), "area", "eu") == 1
    lab.pipeline.compact(lab.pipeline.planner.require_plan(lab.table))
    assert plain(java.rewrite(lab.mirror).rows) == expected
