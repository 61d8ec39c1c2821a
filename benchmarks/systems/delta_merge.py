"""Delta's `MERGE INTO` with deletion vectors: one statement, with the latest event of each key from a window."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.columns import row_columns
from benchmarks.disk import folder_bytes
from benchmarks.messages import Inspection, Load, Start, Timed
from benchmarks.systems.peer_spark import (
    fingerprint_rows,
    merge_latest,
    open_session,
    read_rows,
    time_spark_scans,
)


class DeltaMerge:
    """Addresses tables by their path on the local disk."""

    def __init__(self, start: Start, jars: Sequence[str]) -> None:
        self._jars = jars
        self._folder = start.workspace / "tables"
        self._folder.mkdir()
        self._columns: dict[str, pa.Schema] = {}
        self._partitions: dict[str, str | None] = {}
        self._spark = open_session(
            start,
            jars,
            {
                "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            },
        )

    @property
    def versions(self) -> dict[str, str]:
        """Return the versions of Delta and Spark."""
        return {
            "Delta": f"{self._jars[0].rpartition(':')[2]} (deletion vectors)",
            "Spark": self._spark.version,
        }

    def load(self, request: Load) -> Timed:
        """Load the base table; its write is timed."""
        self._columns[request.table] = row_columns(pq.read_schema(request.files[0]))
        self._partitions[request.table] = request.partition
        writer = read_rows(self._spark, request.files).write.format("delta")
        writer = writer.option("delta.enableDeletionVectors", "true")
        if request.partition:
            writer = writer.partitionBy(request.partition)
        began = time.perf_counter()
        writer.save(str(self._folder / request.table))
        return Timed(seconds=time.perf_counter() - began)

    def apply(self, table: str, batch: Path) -> Timed:
        """Apply a batch; the statement is timed, from the changes in Parquet to the commit."""
        name, names = f"delta.`{self._folder / table}`", self._columns[table].names
        return Timed(seconds=merge_latest(self._spark, name, names, batch, self._partitions[table]))

    def inspect(self, table: str) -> Inspection:
        """Inspect a table; Spark reads and scans the rows."""
        folder, columns = self._folder / table, self._columns[table]
        rows = self._spark.read.format("delta").load(str(folder))
        _, scans = time_spark_scans(lambda: self._spark.read.format("delta").load(str(folder)), columns.names)
        live = {path.rpartition("/")[2] for path in rows.inputFiles()}
        return Inspection(
            fingerprint=fingerprint_rows(rows, columns, self._folder),
            data_bytes=sum(file.stat().st_size for file in folder.rglob("*.parquet") if file.name in live),
            delete_bytes=sum(file.stat().st_size for file in folder.rglob("deletion_vector_*.bin")),
            index_bytes=0,
            disk_bytes=folder_bytes(folder),
            scanned_by="Spark",
            scans=scans,
        )

    def close(self) -> None:
        """Stop Spark."""
        self._spark.stop()
