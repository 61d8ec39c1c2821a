"""Iceberg's `MERGE INTO` on Spark: selects the latest event of each key by a window, then runs one statement."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.columns import row_columns
from benchmarks.disk import folder_bytes
from benchmarks.messages import Inspection, Load, Scanned, Start, Timed
from benchmarks.systems.iceberg_scan import time_scans
from benchmarks.systems.peer_spark import (
    describe_columns,
    fingerprint_rows,
    merge_latest,
    open_session,
    read_rows,
    time_spark_scans,
)


@dataclass(frozen=True)
class Mode:
    """The write mode and format version of Iceberg's MERGE."""

    write: str
    format_version: int


MERGE_ON_READ = Mode("merge-on-read", 3)
COPY_ON_WRITE = Mode("copy-on-write", 2)


class IcebergMerge:
    """Uses a Hadoop catalog on the local disk."""

    def __init__(self, start: Start, mode: Mode, runtime: str) -> None:
        self._mode = mode
        self._runtime = runtime
        self._warehouse = start.workspace / "warehouse"
        self._columns: dict[str, pa.Schema] = {}
        self._partitions: dict[str, str | None] = {}
        self._spark = open_session(
            start,
            [runtime],
            {
                "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
                "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
                "spark.sql.catalog.lake.type": "hadoop",
                "spark.sql.catalog.lake.warehouse": str(self._warehouse),
            },
        )

    @property
    def versions(self) -> dict[str, str]:
        """Return the versions of Iceberg Java and Spark, with the format that it writes."""
        described = f"{self._mode.write}, format v{self._mode.format_version}"
        return {
            "Iceberg Java": f"{self._runtime.rpartition(':')[2]} ({described})",
            "Spark": self._spark.version,
        }

    def load(self, request: Load) -> Timed:
        """Load the base table; the append is timed."""
        table, partition = request.table, request.partition
        self._columns[table] = row_columns(pq.read_schema(request.files[0]))
        self._partitions[table] = partition
        rows = read_rows(self._spark, request.files)
        properties = {
            "format-version": str(self._mode.format_version),
            **{f"write.{action}.mode": self._mode.write for action in ("merge", "update", "delete")},
        }
        described = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
        partitioned = f"PARTITIONED BY ({partition})" if partition else ""
        self._spark.sql(
            f"CREATE TABLE {_name(table)} ({describe_columns(rows)}) USING iceberg {partitioned} "
            f"TBLPROPERTIES ({described})"
        )
        began = time.perf_counter()
        rows.writeTo(_name(table)).append()
        return Timed(seconds=time.perf_counter() - began)

    def apply(self, table: str, batch: Path) -> Timed:
        """Apply a batch; the statement is timed, from the changes in Parquet to the commit."""
        names, partition = self._columns[table].names, self._partitions[table]
        return Timed(seconds=merge_latest(self._spark, _name(table), names, batch, partition))

    def inspect(self, table: str) -> Inspection:
        """Inspect a table; Spark reads the rows, DuckDB scans them, as for every Iceberg table."""
        folder = self._warehouse / "db" / table
        newest = max(
            (folder / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0])
        )
        columns = self._columns[table]
        return Inspection(
            fingerprint=fingerprint_rows(self._spark.table(_name(table)), columns, self._warehouse),
            data_bytes=self._file_bytes(table, "data_files"),
            delete_bytes=self._file_bytes(table, "delete_files"),
            index_bytes=0,
            disk_bytes=folder_bytes(folder),
            scanned_by="DuckDB",
            scans=time_scans(str(newest), columns),
            metadata=str(newest),
        )

    def scan(self, metadata: str) -> Scanned:
        """Scan the table of a metadata file with Spark SQL."""

        table = self._spark.read.format("iceberg").load(metadata)
        rows, seconds = time_spark_scans(
            lambda: self._spark.read.format("iceberg").load(metadata), table.columns
        )
        return Scanned(rows=rows, seconds=seconds)

    def close(self) -> None:
        """Stop Spark."""
        self._spark.stop()

    def _file_bytes(self, table: str, kind: str) -> int:
        # Several deletion vectors share a Puffin file: each path counts once.
        files = self._spark.sql(f"SELECT DISTINCT file_path, file_size_in_bytes FROM {_name(table)}.{kind}")
        return sum(int(row.file_size_in_bytes) for row in files.collect())


def _name(table: str) -> str:
    return f"lake.db.{table}"
