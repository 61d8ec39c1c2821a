"""Hudi's upsert: merge-on-read with the record-level index, which maps a key to its row."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.columns import KEY, OPERATION, SEQUENCE, row_columns
from benchmarks.disk import folder_bytes
from benchmarks.messages import Inspection, Load, Start, Timed
from benchmarks.systems.peer_spark import fingerprint_rows, open_session, read_rows, time_spark_scans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DELETED = "_hoodie_is_deleted"


class HudiUpsert:
    """Addresses tables by their path on the local disk. It does not compact: Hudi recommends a separate process."""

    def __init__(self, start: Start, jar: str) -> None:
        self._jar = jar
        self._parallelism = str(2 * start.cores)
        self._folder = start.workspace / "tables"
        self._folder.mkdir()
        self._columns: dict[str, pa.Schema] = {}
        self._partitions: dict[str, str | None] = {}
        self._spark = open_session(
            start,
            [jar],
            {
                "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
                "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            },
        )

    @property
    def versions(self) -> dict[str, str]:
        """Return the versions of Hudi and Spark."""
        return {
            "Hudi": f"{self._jar.rpartition(':')[2]} (merge-on-read, record index)",
            "Spark": self._spark.version,
        }

    def load(self, request: Load) -> Timed:
        """Load the base table; the bulk insert is timed."""
        self._columns[request.table] = row_columns(pq.read_schema(request.files[0]))
        self._partitions[request.table] = request.partition
        began = time.perf_counter()
        self._write(request.table, read_rows(self._spark, request.files, SEQUENCE), "false", "bulk_insert")
        return Timed(seconds=time.perf_counter() - began)

    def apply(self, table: str, batch: Path) -> Timed:
        """Apply a batch; the upsert is timed. Hudi itself selects the event with the highest sequence."""
        began = time.perf_counter()
        events = self._spark.read.parquet(str(batch))
        self._write(table, events, f"{OPERATION} = 'DELETE'", "upsert")
        return Timed(seconds=time.perf_counter() - began)

    def inspect(self, table: str) -> Inspection:
        """Inspect a table; Spark reads and scans the rows."""
        folder, columns = self._folder / table, self._columns[table]
        rows, scans = time_spark_scans(lambda: self._read(table), columns.names)
        del rows
        metadata = folder / ".hoodie" / "metadata"
        index = folder_bytes(metadata)
        logs = [file for file in folder.rglob(".*.log.*") if not file.is_relative_to(metadata)]
        data = [file for file in folder.rglob("*.parquet") if not file.is_relative_to(metadata)]
        return Inspection(
            fingerprint=fingerprint_rows(self._read(table), columns, self._folder),
            data_bytes=sum(file.stat().st_size for file in data),
            delete_bytes=sum(file.stat().st_size for file in logs),
            index_bytes=index,
            disk_bytes=folder_bytes(folder),
            scanned_by="Spark",
            scans=scans,
        )

    def close(self) -> None:
        """Stop Spark."""
        self._spark.stop()

    def _read(self, table: str) -> DataFrame:
        return self._spark.read.format("hudi").load(str(self._folder / table))

    def _write(self, table: str, events: DataFrame, deleted: str, operation: str) -> None:
        from pyspark.sql import functions as sql

        partition = self._partitions[table]
        simple, none = "SimpleKeyGenerator", "NonpartitionedKeyGenerator"
        options = {
            "hoodie.table.name": table,
            "hoodie.datasource.write.operation": operation,
            "hoodie.datasource.write.recordkey.field": KEY,
            "hoodie.datasource.write.precombine.field": SEQUENCE,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.partitionpath.field": partition or "",
            "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{simple if partition else none}",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.record.index.enable": "true",
            "hoodie.metadata.global.record.level.index.enable": "true",
            "hoodie.index.type": "RECORD_INDEX",
            "hoodie.compact.inline": "false",
            "hoodie.upsert.shuffle.parallelism": self._parallelism,
            "hoodie.bulkinsert.shuffle.parallelism": self._parallelism,
        }
        rows = events.withColumn(_DELETED, sql.expr(deleted)).drop(OPERATION)
        mode = "append" if operation == "upsert" else "overwrite"
        rows.write.format("hudi").options(**options).mode(mode).save(str(self._folder / table))
