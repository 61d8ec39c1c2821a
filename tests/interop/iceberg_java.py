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

# Objects of the JVM have no types here.
JavaObject = Any

_SPARK = {
    "spark.master": "local[2]",
    "spark.app.name": "interop",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # short work: quick starts
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
    """Rows that Iceberg Java read, and the metrics of the file that it wrote them to."""

    rows: pa.Table
    metrics: JavaObject


@dataclass(frozen=True)
class IcebergJava:
    """The library itself, and Spark with it."""

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
        """The table of a metadata file, read-only."""
        io = self.jvm.org.apache.iceberg.hadoop.HadoopFileIO(self.jvm.org.apache.hadoop.conf.Configuration())
        operations = self.jvm.org.apache.iceberg.StaticTableOperations(mirror.metadata_location, io)
        return self.jvm.org.apache.iceberg.BaseTable(operations, ".".join(mirror.name()))

    def rewrite(
        self, mirror: Table, snapshot_id: int | None = None, columns: Sequence[str] | None = None
    ) -> Rewritten:
        """Reads a snapshot with Iceberg's own readers, of every type, and writes the rows to one file."""
        table = self.load(mirror)
        scan = self.jvm.org.apache.iceberg.data.IcebergGenerics.read(table)
        if snapshot_id is not None:
            scan = scan.useSnapshot(snapshot_id)
        schema, spec = table.schema(), self.jvm.org.apache.iceberg.PartitionSpec.unpartitioned()
        if columns is not None:
            schema = schema.select(list(columns))
            scan = scan.project(schema)
        path = self.scratch / f"{uuid4()}.parquet"
        writing = self.jvm.java.util.HashMap(table.properties())
        for name in [name for name in writing if name.startswith("write.metadata.metrics.")]:
            writing.remove(name)  # these it takes from the table, and from nowhere else
        factory = self.jvm.org.apache.iceberg.data.GenericAppenderFactory(
            table, schema, spec, writing, None, None
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

        It may be partitioned by a column: that of the first row.
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
        """How many rows a scan finds by the value of a column."""
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
        """The data files of a scan of the head, each with its delete files, which keep their bounds."""
        tasks = self.load(mirror).newScan().includeColumnStats().planFiles()
        try:
            return {task.file().location(): list(task.deletes()) for task in _each(tasks.iterator())}
        finally:
            tasks.close()

    def partitions(self, mirror: Table) -> tuple[Counter[str], Counter[str]]:
        """Rows by partition: the partition of their file, and the one that Java computes. Deletes are ignored."""
        table = self.load(mirror)
        spec, schema = table.spec(), table.schema()
        said: Counter[str] = Counter()
        tasks = table.newScan().planFiles()
        for task in _each(tasks.iterator()):
            assert task.deletes().isEmpty()
            said[spec.partitionToPath(task.file().partition())] += task.file().recordCount()
        tasks.close()
        computed: Counter[str] = Counter()
        key = self.jvm.org.apache.iceberg.PartitionKey(spec, schema)
        wrapper = self.jvm.org.apache.iceberg.data.InternalRecordWrapper(schema.asStruct())
        records = self.jvm.org.apache.iceberg.data.IcebergGenerics.read(table).build()
        for record in _each(records.iterator()):
            key.partition(wrapper.wrap(record))
            computed[key.toPath()] += 1
        records.close()
        return said, computed

    def referenced_file(self, delete: JavaObject) -> str | None:
        """The one data file of a delete file, if it is of one."""
        location = self.jvm.org.apache.iceberg.util.ContentFileUtil.referencedDataFileLocation(delete)
        return None if location is None else str(location)

    def is_vector(self, delete: JavaObject) -> bool:
        """Whether a delete file is a deletion vector."""
        return bool(self.jvm.org.apache.iceberg.util.ContentFileUtil.isDV(delete))

    def is_file_scoped(self, delete: JavaObject) -> bool:
        """Whether a delete file is of one data file only."""
        return bool(self.jvm.org.apache.iceberg.util.ContentFileUtil.isFileScoped(delete))

    @staticmethod
    def counts(metric: JavaObject) -> dict[int, int]:
        """A metric by field id."""
        return {int(number): int(count) for number, count in metric.items()}

    @staticmethod
    def bounds(metric: JavaObject) -> dict[int, bytes]:
        """A bound by field id."""
        return {int(number): _bytes_of(buffer) for number, buffer in metric.items()}


def _each(iterator: JavaObject) -> Iterator[JavaObject]:
    while iterator.hasNext():
        yield iterator.next()


def _bytes_of(buffer: JavaObject) -> bytes:
    start = buffer.arrayOffset() + buffer.position()
    return bytes(buffer.array())[start : start + buffer.remaining()]


def _literal(value: object) -> object:
    """A value for Iceberg Java: numbers unchanged, most others as ISO text."""
    match value:
        case bool() | int() | float() | str() | bytes():
            return value
        case date() | clock_time():  # a datetime is a date
            return value.isoformat()
        case _:
            return str(value)
