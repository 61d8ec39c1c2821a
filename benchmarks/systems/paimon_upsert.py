"""Paimon's fastest mode: blind writes to a log-structured table, with the row kind in a column, merged by readers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.columns import KEY, OPERATION, SEQUENCE, row_columns
from benchmarks.disk import folder_bytes
from benchmarks.messages import Inspection, Load, Start, Timed
from benchmarks.systems.peer_spark import (
    describe_columns,
    fingerprint_rows,
    open_session,
    read_rows,
    time_spark_scans,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KIND = "row_kind"
_BUCKETS = 4


class PaimonUpsert:
    """Uses a file-system catalog on the local disk, with four buckets and Paimon's automatic compaction."""

    def __init__(self, start: Start, jar: str) -> None:
        self._jar = jar
        self._warehouse = start.workspace / "warehouse"
        self._warehouse.mkdir()
        self._columns: dict[str, pa.Schema] = {}
        self._spark = open_session(
            start,
            [jar],
            {
                "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
                "spark.sql.catalog.lake": "org.apache.paimon.spark.SparkCatalog",
                "spark.sql.catalog.lake.warehouse": str(self._warehouse),
            },
        )
        self._spark.sql("CREATE DATABASE lake.db")

    @property
    def versions(self) -> dict[str, str]:
        """Return the versions of Paimon and Spark."""
        return {
            "Paimon": f"{self._jar.rpartition(':')[2]} (row-kind upsert, {_BUCKETS} buckets)",
            "Spark": self._spark.version,
        }

    def load(self, request: Load) -> Timed:
        """Load the base table; the first write, of all rows, is timed."""
        from pyspark.sql import functions as sql

        table, partition = request.table, request.partition
        self._columns[table] = row_columns(pq.read_schema(request.files[0]))
        rows = read_rows(self._spark, request.files, SEQUENCE).withColumn(_KIND, sql.lit("+I"))
        properties = {
            "primary-key": f"{partition},{KEY}" if partition else KEY,
            "bucket": str(_BUCKETS),
            "rowkind.field": _KIND,
            "sequence.field": SEQUENCE,
        }
        described = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
        partitioned = f"PARTITIONED BY ({partition})" if partition else ""
        self._spark.sql(
            f"CREATE TABLE {_name(table)} ({describe_columns(rows)}) {partitioned} TBLPROPERTIES ({described})"
        )
        began = time.perf_counter()
        self._insert(table, rows)
        return Timed(seconds=time.perf_counter() - began)

    def apply(self, table: str, batch: Path) -> Timed:
        """Apply a batch; the write of the unchanged events is timed."""
        from pyspark.sql import functions as sql

        began = time.perf_counter()
        events = self._spark.read.parquet(str(batch))
        kind = sql.when(sql.col(OPERATION) == "DELETE", "-D").otherwise("+U")
        self._insert(table, events.withColumn(_KIND, kind).drop(OPERATION))
        return Timed(seconds=time.perf_counter() - began)

    def inspect(self, table: str) -> Inspection:
        """Inspect a table; Spark reads and scans the rows, and merges them while reading."""
        folder, columns = self._warehouse / "db.db" / table, self._columns[table]
        _, scans = time_spark_scans(lambda: self._spark.table(_name(table)), columns.names)
        files = self._spark.sql(f"SELECT file_size_in_bytes FROM {_name(f'`{table}$files`')}").collect()
        return Inspection(
            fingerprint=fingerprint_rows(self._spark.table(_name(table)), columns, self._warehouse),
            data_bytes=sum(int(row.file_size_in_bytes) for row in files),
            delete_bytes=0,
            index_bytes=0,
            disk_bytes=folder_bytes(folder),
            scanned_by="Spark",
            scans=scans,
        )

    def close(self) -> None:
        """Stop Spark."""
        self._spark.stop()

    def _insert(self, table: str, rows: DataFrame) -> None:
        ordered = rows.select(*self._spark.table(_name(table)).columns)
        ordered.write.format("paimon").mode("append").insertInto(_name(table))


def _name(table: str) -> str:
    return f"lake.db.{table}"
