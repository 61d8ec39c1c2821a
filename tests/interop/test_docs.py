"""The examples of docs/how-to/readers.md run on a mirror."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from icemirror.cli.demo.oracle.duckdb_oracle import connect_duckdb, has_iceberg_reader
from tests.interop.cases import Case, make_world, snapshot_ids
from tests.interop.iceberg_java import IcebergJava
from tests.interop.spark_sql import SparkSql
from tests.lab.mirrored_world import MirroredWorld
from tests.support.need import need

READERS = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "readers.md"


@pytest.fixture
def lake(tmp_path: Path) -> MirroredWorld:
    """Return a mirror for the examples."""
    return make_world(tmp_path / "lake", Case("docs", "int", ("text", "double"), seed=61), merges=3)


def example(section: str, language: str, world: MirroredWorld) -> str:
    """Return the code block of a section, with the names of this mirror."""
    _, _, text = READERS.read_text(encoding="utf-8").partition(f"\n## {section}\n")
    (block,) = re.findall(rf"```{language}\n(.*?)```", text.partition("\n## ")[0], re.DOTALL)
    block = block.replace("shop.orders", str(world.table.mirror_id))
    block = re.sub(r"/data/\S+?\.metadata\.json", world.mirror.metadata_location, block)
    block = block.replace("sqlite:////data/catalog.db", world.settings.catalog_properties(None)["uri"])
    return re.sub(r"\d{15,}", str(snapshot_ids(world.mirror)[0]), block)


def test_pyiceberg_example_runs(lake: MirroredWorld) -> None:
    names: dict[str, object] = {}
    exec(example("PyIceberg", "python", lake), names)  # noqa: S102 (our own text)
    assert lake.oracle.verdict_of_rows(names["rows"]).equal
    assert names["rows_then"] != names["rows"]


def test_duckdb_example_runs(lake: MirroredWorld) -> None:
    with connect_duckdb(iceberg=True) as duck:
        count, earlier_count = [
            duck.execute(query).fetchall() for query in statements(example("DuckDB", "sql", lake))
        ]
    assert count == [(len(lake.oracle.expected()),)]
    assert earlier_count


def test_duckdb_example_with_packaged_extensions_runs(lake: MirroredWorld) -> None:
    need(has_iceberg_reader(), "DuckDB's iceberg extension is not installed")
    names: dict[str, Any] = {}
    exec(example("DuckDB", "python", lake), names)  # noqa: S102 (our own text)
    with names["duck"] as duck:
        count, _ = statements(example("DuckDB", "sql", lake))
        assert duck.execute(count).fetchall() == [(len(lake.oracle.expected()),)]


def test_spark_example_runs(lake: MirroredWorld, java: IcebergJava) -> None:
    spark = SparkSql.on(java, lake)
    for name, value in re.findall(r"--conf (spark\.sql\.catalog\.\S+?)=(\S+)", example("Spark", "sh", lake)):
        if not name.endswith((".uri", ".warehouse")):  # these contain the folder of the example
            assert spark.session.conf().get(name) == value
    row_counts = [spark.session.sql(query).count() for query in statements(example("Spark", "sql", lake))]
    assert row_counts[0] == len(lake.oracle.expected())
    assert row_counts[2] == len(snapshot_ids(lake.mirror))


def test_row_id_example_runs(tmp_path: Path, java: IcebergJava) -> None:
    world = make_world(tmp_path, Case("docs", "int", ("text",), seed=62, format_version=3), merges=2)
    (query,) = statements(example("Row ids", "sql", world))
    rows = SparkSql.on(java, world).query(query)
    assert len(set(rows["_row_id"].to_pylist())) == len(world.oracle.expected())


def statements(block: str) -> list[str]:
    return [statement.strip() for statement in block.split(";") if statement.strip()]
