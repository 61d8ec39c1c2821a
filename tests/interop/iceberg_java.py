"""Iceberg Java as the reference: a JVM with Spark and Iceberg's jar, separate from the Spark of the tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from datetime import time as clock_time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table
from pyspark.conf import SparkConf
from pyspark.java_gateway import launch_gateway

ICEBERG_JAR = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"
SQLITE_JAR = "org.xerial:sqlite-jdbc:3.50.3.0"

# Objects of the JVM are untyped in Python.
JavaObject = Any

_SPARK = {
    "spark.master": "local[2]",
    "spark.app.name": "interop",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # optimized for a fast start
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


@dataclass(frozen=True)
class Rewritten:
    """Rows that Iceberg Java read and wrote to a file, with the metrics of that file."""

    rows: pa.Table
    metrics: JavaObject


@dataclass(frozen=True)
class IcebergJava:
    """Access to Iceberg's Java library, and to Spark with it."""

    jvm: JavaObject
    spark: JavaObject
    scratch: Path

    @classmethod
    @contextmanager
    def launch(cls, jars: list[Path], scratch: Path) -> Iterator[IcebergJava]:
        """Start a separate JVM: PySpark's JVM in this process, if any, was started without the jars."""
        conf = SparkConf(loadDefaults=False)
        for name, value in _SPARK.items():
            conf.set(name, value)
        conf.set("spark.driver.extraClassPath", ":".join(map(str, jars)))
        conf.set("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        conf.set("spark.sql.warehouse.dir", f"file://{scratch}/spark-warehouse")
        gateway = launch_gateway(conf)  # type: ignore[no-untyped-call]
        try:
            jvm = gateway.jvm
            spark = jvm.org.apache.spark.sql.SparkSession.builder().getOrCreate()
            yield cls(jvm, spark, scratch)
            spark.stop()
        finally:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(30)

    def load(self, mirror: Table) -> JavaObject:
        """Load the table of a metadata file, read-only."""
        io = self.jvm.org.apache.iceberg.hadoop.HadoopFileIO(self.jvm.org.apache.hadoop.conf.Configuration())
        operations = self.jvm.org.apache.iceberg.StaticTableOperations(mirror.metadata_location, io)
        return self.jvm.org.apache.iceberg.BaseTable(operations, ".".join(mirror.name()))

    def rewrite(
        self, mirror: Table, snapshot_id: int | None = None, columns: Sequence[str] | None = None
    ) -> Rewritten:
        """Read a snapshot with Iceberg's generic readers, which support every type, and write the rows to one file."""
        table = self.load(mirror)
        scan = self.jvm.org.apache.iceberg.data.IcebergGenerics.read(table)
        if snapshot_id is not None:
            scan = scan.useSnapshot(snapshot_id)
        schema, spec = table.schema(), self.jvm.org.apache.iceberg.PartitionSpec.unpartitioned()
        if columns is not None:
            schema = schema.select(list(columns))
            scan = scan.project(schema)
        path = self.scratch / f"{uuid4()}.parquet"
        write_properties = self.jvm.java.util.HashMap(table.properties())
        for name in [name for name in write_properties if name.startswith("write.metadata.metrics.")]:
            write_properties.remove(name)  # metrics settings come from the table only
        factory = self.jvm.org.apache.iceberg.data.GenericAppenderFactory(
            table, schema, spec, write_properties, None, None
        )
        output = self.jvm.org.apache.iceberg.Files.localOutput(str(path))
        parquet = self.jvm.org.apache.iceberg.FileFormat.PARQUET
        appender = factory.newAppender(output, parquet)
        records = scan.build()
        try:
            appender.addAll(records)
        finally:
            records.close()
            appender.close()
        return Rewritten(pq.read_table(path), appender.metrics())

    def copy(
        self, mirror: Table, columns: Sequence[str], folder: Path, partition_by: str | None = None
    ) -> str:
        """Create a table of the same format version with these columns and rows. Return the path of its metadata.

        With `partition_by`, all rows are in the partition of the last one.
        """
        iceberg = self.jvm.org.apache.iceberg
        source = self.load(mirror)
        schema, spec = source.schema().select(list(columns)), iceberg.PartitionSpec.unpartitioned()
        if partition_by is not None:
            spec = iceberg.PartitionSpec.builderFor(schema).identity(partition_by).build()
        properties = self.jvm.java.util.HashMap()
        properties.put("format-version", str(mirror.metadata.format_version))
        tables = iceberg.hadoop.HadoopTables(self.jvm.org.apache.hadoop.conf.Configuration())
        table = tables.create(schema, spec, properties, str(folder))
        spec, key = table.spec(), iceberg.PartitionKey(table.spec(), table.schema())
        output = table.io().newOutputFile(f"{folder}/data/{uuid4()}.parquet")
        appender = iceberg.data.GenericAppenderFactory(table.schema(), spec).newAppender(
            output, iceberg.FileFormat.PARQUET
        )
        records = iceberg.data.IcebergGenerics.read(source).project(schema).build()
        try:
            wrapper = iceberg.data.InternalRecordWrapper(table.schema().asStruct())
            for record in _each(records.iterator()):
                key.partition(wrapper.wrap(record))
                appender.add(record)
        finally:
            records.close()
            appender.close()
        file = (
            iceberg.DataFiles.builder(spec)
            .withInputFile(output.toInputFile())
            .withMetrics(appender.metrics())
            .withFormat(iceberg.FileFormat.PARQUET)
            .withPartition(key)
            .build()
        )
        table.newAppend().appendFile(file).commit()
        return str(table.operations().current().metadataFileLocation())

    def count(self, table: JavaObject, column: str, value: object) -> int:
        """Count the rows that a scan finds for a value of a column."""
        expressions = self.jvm.org.apache.iceberg.expressions.Expressions
        where = expressions.isNull(column) if value is None else expressions.equal(column, _literal(value))
        records = self.jvm.org.apache.iceberg.data.IcebergGenerics.read(table).where(where).build()
        try:
            return int(
                self.jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables.size(records)
            )
        finally:
            records.close()

    def plan(self, mirror: Table) -> dict[str, list[JavaObject]]:
        """Return the data files of a scan of the head, each with its delete files, including their bounds."""
        tasks = self.load(mirror).newScan().includeColumnStats().planFiles()
        try:
            return {task.file().location(): list(task.deletes()) for task in _each(tasks.iterator())}
        finally:
            tasks.close()

    def partitions(self, mirror: Table) -> tuple[Counter[str], Counter[str]]:
        """Count rows by the partition of their file, and by the partition that Java computes, without deletes."""
        table = self.load(mirror)
        spec, schema = table.spec(), table.schema()
        stored: Counter[str] = Counter()
        tasks = table.newScan().planFiles()
        for task in _each(tasks.iterator()):
            assert task.deletes().isEmpty()
            stored[spec.partitionToPath(task.file().partition())] += task.file().recordCount()
        tasks.close()
        computed: Counter[str] = Counter()
        key = self.jvm.org.apache.iceberg.PartitionKey(spec, schema)
        wrapper = self.jvm.org.apache.iceberg.data.InternalRecordWrapper(schema.asStruct())
        records = self.jvm.org.apache.iceberg.data.IcebergGenerics.read(table).build()
        for record in _each(records.iterator()):
            key.partition(wrapper.wrap(record))
            computed[key.toPath()] += 1
        records.close()
        return stored, computed

    def referenced_file(self, delete: JavaObject) -> str | None:
        """Return the data file of a delete file, if there is only one."""
        location = self.jvm.org.apache.iceberg.util.ContentFileUtil.referencedDataFileLocation(delete)
        return None if location is None else str(location)

    def is_vector(self, delete: JavaObject) -> bool:
        """Return whether a delete file is a deletion vector."""
        return bool(self.jvm.org.apache.iceberg.util.ContentFileUtil.isDV(delete))

    def is_file_scoped(self, delete: JavaObject) -> bool:
        """Return whether a delete file belongs to one data file only."""
        return bool(self.jvm.org.apache.iceberg.util.ContentFileUtil.isFileScoped(delete))

    @staticmethod
    def counts(metric: JavaObject) -> dict[int, int]:
        """Return a metric by field id."""
        return {int(field_id): int(count) for field_id, count in metric.items()}

    @staticmethod
    def bounds(metric: JavaObject) -> dict[int, bytes]:
        """Return a bound by field id."""
        return {int(field_id): _bytes_of(buffer) for field_id, buffer in metric.items()}


def _each(iterator: JavaObject) -> Iterator[JavaObject]:
    while iterator.hasNext():
        yield iterator.next()


def _bytes_of(buffer: JavaObject) -> bytes:
    start = buffer.arrayOffset() + buffer.position()
    return bytes(buffer.array())[start : start + buffer.remaining()]


def _literal(value: object) -> object:
    """Convert a value for Iceberg Java: numbers unchanged, most others to ISO text."""
    match value:
        case bool() | int() | float() | str() | bytes():
            return value
        case date() | clock_time():  # a datetime is a date
            return value.isoformat()
        case _:
            return str(value)
