"""Counts and bounds of data files equal those that Iceberg Java writes for the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from spark_job.write.data_files import write_rows
from tests.interop.cases import Case, make_with_one_merge
from tests.interop.iceberg_java import IcebergJava
from tests.interop.spark_sql import SparkSql
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.value_pools import VALUE_COLUMNS

Value = TypeVar("Value")
FLOATS = ("single", "double")


@pytest.mark.parametrize(("key", "seed"), [("int", 41), ("string", 42), ("composite", 43), ("decimal", 44)])
def test_counts_and_bounds_equal_those_of_iceberg_java(
    tmp_path: Path, java: IcebergJava, key: str, seed: int
) -> None:
    columns = tuple(name for name in VALUE_COLUMNS if name != "ref")  # uuids have no bounds, see test_lookups
    mirror = mirror_with_one_file(tmp_path, key, seed, columns).mirror
    ours, theirs = only_file(mirror), java.rewrite(mirror).metrics
    for our_counts, their_counts in (
        (ours.value_counts, java.counts(theirs.valueCounts())),
        (ours.null_value_counts, java.counts(theirs.nullValueCounts())),
    ):
        assert by_column(mirror, our_counts) == by_column(mirror, their_counts)
    for our_bounds, their_bounds in (
        (ours.lower_bounds, java.bounds(theirs.lowerBounds())),
        (ours.upper_bounds, java.bounds(theirs.upperBounds())),
    ):
        assert by_column(mirror, our_bounds) == by_column(mirror, their_bounds)


def test_nan_counts_equal_those_of_iceberg_java(tmp_path: Path, java: IcebergJava) -> None:
    mirror = mirror_with_one_file(tmp_path, "int", 41, FLOATS).mirror
    theirs = by_column(mirror, java.counts(java.rewrite(mirror).metrics.nanValueCounts()))
    assert all(theirs[name] for name in FLOATS)
    assert by_column(mirror, only_file(mirror).nan_value_counts) == theirs


@pytest.mark.parametrize(
    "columns", [("small", "big", "price", "amount"), ("day", "moment", "instant"), FLOATS], ids=",".join
)
def test_spark_aggregates_from_metadata_equal_those_from_rows(
    tmp_path: Path, java: IcebergJava, columns: tuple[str, ...]
) -> None:
    """Without deletes, Spark takes counts, minima and maxima from the manifests alone."""
    world = mirror_with_one_file(tmp_path, "int", 41, columns)
    spark = SparkSql.on(java, world)
    aggregates = ", ".join(f"count({name}), min({name}), max({name})" for name in columns)
    results = []
    for push_down in ("false", "true"):
        spark.session.conf().set("spark.sql.iceberg.aggregate-push-down.enabled", push_down)
        (row,) = spark.session.sql(f"SELECT count(*), {aggregates} FROM {spark.mirror}").collectAsList()
        results.append(["0.0" if value == "-0.0" else value for value in row.mkString(" ").split(" ")])
    from_rows, from_metadata = results
    assert from_metadata == from_rows


@pytest.mark.parametrize(
    "text", ["a" * 15 + "\ud7ff" + "z", "\U0010ffff" * 17, "\x00" * 17, "é" * 17], ids=ascii
)
def test_text_of_any_character_is_written(tmp_path: Path, text: str) -> None:
    """A bound is cut after 16 characters and the last one incremented; UTF-8 cannot encode the one after U+D7FF."""
    mirror = mirror_with_one_file(tmp_path, "int", 41, ("text",)).mirror
    check_bounds(mirror, "text", [text], [text.encode()])


@pytest.mark.parametrize("column", ["text", "blob"])
def test_bounds_cover_values_without_parquet_statistics(tmp_path: Path, column: str) -> None:
    """Parquet's writer omits statistics of values beyond 4 KiB; those of other row groups do not cover them."""
    two_rows = (("write.parquet.row-group-limit", "2"),)
    mirror = mirror_with_one_file(tmp_path, "int", 41, (column,), two_rows).mirror
    texts = ["m", "n", "z" * 5000, "b", "o", "p", "A" * 5000, "c"]
    values = [text.encode() for text in texts]
    check_bounds(mirror, column, texts if column == "text" else values, values)


def check_bounds(mirror: Table, column: str, values: list[str] | list[bytes], stored: list[bytes]) -> None:
    """Write rows with these values. The file's bounds cover all of them, or there are none."""
    rows = [{"id": number, column: value} for number, value in enumerate(values)]
    table = pa.Table.from_pylist(rows, schema=schema_to_pyarrow(mirror.schema()))
    (file,) = write_rows(mirror.io, mirror.metadata, table, []).files
    lower, upper = (
        by_column(mirror, bounds).get(column) for bounds in (file.lower_bounds, file.upper_bounds)
    )
    assert lower is None or lower <= min(stored)
    assert upper is None or upper >= max(stored)


def mirror_with_one_file(
    folder: Path,
    key: str,
    seed: int,
    columns: tuple[str, ...],
    properties: tuple[tuple[str, str], ...] = (),
) -> MirroredWorld:
    """Return a mirror with one data file and no deletes."""
    return make_with_one_merge(folder, Case("one_file", key, columns, seed=seed, properties=properties))


def only_file(mirror: Table) -> DataFile:
    (task,) = mirror.scan().plan_files()
    assert not task.delete_files
    return task.file


def by_column(mirror: Table, values: Mapping[int, Value] | None) -> dict[str, Value]:
    """Return metrics by top-level column; inside lists and structs, PyIceberg and Java count differently."""
    names = {field.field_id: field.name for field in mirror.schema().fields}
    return {names[number]: value for number, value in (values or {}).items() if number in names}
