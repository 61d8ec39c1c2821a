"""Iceberg's own `MERGE INTO` on Spark: the latest event of each key by a window, then one statement."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.dataset import dataset

from benchmarks.dataset import OPERATION, SEQUENCE
from benchmarks.disk import folder_bytes
from benchmarks.fingerprint import KEY, Fingerprint, fingerprint
from benchmarks.messages import Inspection, Start, Timed
from benchmarks.systems.iceberg_scan import time_scans
from spark_job.session import open_spark
from tests import maven

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MERGE = """
MERGE INTO {table} t USING changes s ON t.{key} = s.{key}
WHEN MATCHED AND s.{operation} = 'DELETE' THEN DELETE
WHEN MATCHED THEN UPDATE SET {assignments}
WHEN NOT MATCHED AND s.{operation} <> 'DELETE' THEN INSERT ({columns}) VALUES ({values})
"""


@dataclass(frozen=True)
class Mode:
    """How Iceberg's MERGE writes."""

    write: str
    format_version: int


MERGE_ON_READ = Mode("merge-on-read", 3)


class SparkMerge:
    """A Hadoop catalog on the local disk, tuned for so few cores: four shuffle partitions, not two hundred."""

    def __init__(self, start: Start, mode: Mode, runtime: str) -> None:
        from pyspark.sql import SparkSession

        self._mode = mode
        self._runtime = runtime
        self._warehouse = start.workspace / "warehouse"
        self._columns: dict[str, pa.Schema] = {}
        partitions = str(2 * start.cores)
        context = open_spark(
            {
                "spark.master": f"local[{start.cores}]",
                "spark.driver.memory": start.driver_memory,
                "spark.local.dir": str(start.workspace / "spark"),
                "spark.jars": str(maven.jar(runtime)),
                "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
                "spark.sql.session.timeZone": "UTC",
                "spark.sql.shuffle.partitions": partitions,
                "spark.default.parallelism": partitions,
                "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
                "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
                "spark.sql.catalog.lake.type": "hadoop",
                "spark.sql.catalog.lake.warehouse": str(self._warehouse),
            }
        )
        self._spark = SparkSession(context)

    @property
    def versions(self) -> dict[str, str]:
        """Iceberg Java, and the format that it writes."""
        return {
            "Iceberg Java": self._runtime.rpartition(":")[2],
            "MERGE": f"{self._mode.write}, format v{self._mode.format_version}",
        }

    def load(self, table: str, base: Path) -> Timed:
        """Timed is the append of the base table."""
        self._columns[table] = pq.read_schema(min(base.glob("*.parquet")))
        rows = self._spark.read.parquet(str(base))
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema)
        properties = {
            "format-version": str(self._mode.format_version),
            **{f"write.{action}.mode": self._mode.write for action in ("merge", "update", "delete")},
        }
        shown = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
        self._spark.sql(f"CREATE TABLE {_name(table)} ({columns}) USING iceberg TBLPROPERTIES ({shown})")
        began = time.perf_counter()
        rows.writeTo(_name(table)).append()
        return Timed(seconds=time.perf_counter() - began)

    def apply(self, table: str, batch: Path) -> Timed:
        """Timed is the statement, from the changes in Parquet to the commit."""
        names = self._columns[table].names
        statement = _MERGE.format(
            table=_name(table),
            key=KEY,
            operation=OPERATION,
            assignments=", ".join(f"t.{name} = s.{name}" for name in names),
            columns=", ".join(names),
            values=", ".join(f"s.{name}" for name in names),
        )
        began = time.perf_counter()
        _latest(self._spark.read.parquet(str(batch))).createOrReplaceTempView("changes")
        self._spark.sql(statement)
        return Timed(seconds=time.perf_counter() - began)

    def inspect(self, table: str) -> Inspection:
        """Rows through Spark, scans through DuckDB as for every Iceberg table."""
        folder = self._warehouse / "db" / table
        newest = max(
            (folder / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0])
        )
        return Inspection(
            fingerprint=self._fingerprint(table),
            data_bytes=self._file_bytes(table, "data_files"),
            delete_bytes=self._file_bytes(table, "delete_files"),
            index_bytes=0,
            disk_bytes=folder_bytes(folder),
            scans=time_scans(str(newest), self._columns[table]),
        )

    def close(self) -> None:
        """Stops Spark."""
        self._spark.stop()

    def _fingerprint(self, table: str) -> Fingerprint:
        """Spark reads the table and writes its rows as plain Parquet, which needs no reader of Iceberg."""
        with tempfile.TemporaryDirectory(dir=self._warehouse) as folder:
            rows = f"{folder}/rows"
            self._spark.table(_name(table)).write.parquet(rows)
            batches = dataset(rows).to_batches(columns=self._columns[table].names)
            return fingerprint(batches, self._columns[table])

    def _file_bytes(self, table: str, kind: str) -> int:
        # Several deletion vectors share a Puffin file: each path counts once.
        files = self._spark.sql(f"SELECT DISTINCT file_path, file_size_in_bytes FROM {_name(table)}.{kind}")
        return sum(int(row.file_size_in_bytes) for row in files.collect())


def _name(table: str) -> str:
    return f"lake.db.{table}"


def _latest(events: DataFrame) -> DataFrame:
    """The last event of each key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    newest_first = Window.partitionBy(KEY).orderBy(sql.col(SEQUENCE).desc())
    ranked = events.withColumn("_rank", sql.row_number().over(newest_first))
    return ranked.filter("_rank = 1").drop("_rank")
