"""Shared code of all peers on Spark: a session tuned for few cores, the latest event of each key, and reading."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow.dataset import dataset

from benchmarks.columns import KEY, OPERATION, SEQUENCE
from benchmarks.fingerprint import Fingerprint, fingerprint
from benchmarks.messages import Start
from spark_job.engine.session import open_spark
from tests.provision import maven

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCANS = 3
# icemirror disables Java's optimizing compiler, which it does not need; peers do their work in Java.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=4"
_MERGE = """
MERGE INTO {table} t USING changes s ON t.{key} = s.{key}{same_partition}
WHEN MATCHED AND s.{operation} = 'DELETE' THEN DELETE
WHEN MATCHED THEN UPDATE SET {assignments}
WHEN NOT MATCHED AND s.{operation} <> 'DELETE' THEN INSERT ({columns}) VALUES ({values})
"""


def open_session(start: Start, jars: Sequence[str], options: Mapping[str, str]) -> SparkSession:
    """Open a session with the peer's jars, Kryo, and twice as many shuffle partitions as cores instead of 200."""
    from pyspark.sql import SparkSession

    partitions = str(2 * start.cores)
    context = open_spark(
        {
            "spark.master": f"local[{start.cores}]",
            "spark.driver.memory": start.driver_memory,
            "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
            "spark.local.dir": str(start.workspace / "spark"),
            "spark.sql.warehouse.dir": str(start.workspace / "hive"),
            "spark.jars": ",".join(str(maven.jar(coordinates)) for coordinates in jars),
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": partitions,
            "spark.default.parallelism": partitions,
            **options,
        }
    )
    return SparkSession(context)


def read_rows(spark: SparkSession, files: Sequence[Path], *kept: str) -> DataFrame:
    """Return the rows of files, without the changelog's metadata columns except for those in `kept`."""
    events = spark.read.parquet(*map(str, files))
    dropped = {OPERATION, SEQUENCE} - set(kept)
    return events.drop(*dropped)


def describe_columns(rows: DataFrame) -> str:
    """Return the columns in the syntax of CREATE TABLE."""
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema)


def merge_latest(
    spark: SparkSession, table: str, columns: Sequence[str], batch: Path, partition: str | None
) -> float:
    """Run `MERGE INTO` with the latest event of each key, selected by a window; return the seconds."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    statement = _MERGE.format(
        table=table,
        key=KEY,
        same_partition=f" AND t.{partition} = s.{partition}" if partition else "",
        operation=OPERATION,
        assignments=", ".join(f"t.{name} = s.{name}" for name in columns),
        columns=", ".join(columns),
        values=", ".join(f"s.{name}" for name in columns),
    )
    began = time.perf_counter()
    newest_first = Window.partitionBy(KEY).orderBy(sql.col(SEQUENCE).desc())
    ranked = spark.read.parquet(str(batch)).withColumn("_rank", sql.row_number().over(newest_first))
    ranked.filter("_rank = 1").drop("_rank").createOrReplaceTempView("changes")
    spark.sql(statement)
    return time.perf_counter() - began


def time_spark_scans(read: Callable[[], DataFrame], columns: Sequence[str]) -> tuple[int, tuple[float, ...]]:
    """Return the number of rows, and the seconds of full scans over all columns after a warm-up."""
    from pyspark.sql import functions as sql

    seconds: list[float] = []
    rows = 0
    for _ in range(_SCANS + 1):
        began = time.perf_counter()
        (found,) = read().agg(sql.count(sql.lit(1)), *(sql.max(name) for name in columns)).collect()
        seconds.append(time.perf_counter() - began)
        rows = int(found[0])
    return rows, tuple(seconds[1:])


def fingerprint_rows(rows: DataFrame, columns: pa.Schema, scratch: Path) -> Fingerprint:
    """Return the fingerprint of the rows. Spark writes them as plain Parquet, which needs no reader of the format."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        rows.select(*columns.names).write.parquet(f"{folder}/rows")
        return fingerprint(dataset(f"{folder}/rows").to_batches(), columns)
