"""A Spark SQL session on one mirror's catalog: Java's JDBC catalog on the SQLite file of PyIceberg."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.table import Table

from icemirror.catalogs.catalog_properties import DEFAULT_CATALOG
from tests.interop.iceberg_java import IcebergJava, JavaObject
from tests.lab.lab import Lab
from tests.lab.mirrored_world import MirroredWorld

SNAPSHOT_COLUMN = "read_at_snapshot"


@dataclass(frozen=True)
class SparkSql:
    """Queries and changes the table `mirror`."""

    session: JavaObject
    scratch: Path
    mirror: str
    changelog: str = ""

    @classmethod
    def on(cls, java: IcebergJava, world: MirroredWorld | Lab) -> SparkSql:
        """Open a session on the world's catalog, under the same name: every row of its database contains it."""
        session = java.spark.newSession()
        properties = world.settings.catalog_properties(None)
        catalog = f"spark.sql.catalog.{DEFAULT_CATALOG}"
        for name, value in {
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "jdbc",
            f"{catalog}.uri": properties["uri"].replace("sqlite:///", "jdbc:sqlite:"),
            f"{catalog}.warehouse": properties["warehouse"],
            f"{catalog}.cache-enabled": "false",
        }.items():
            session.conf().set(name, value)
        mirror, changelog = (
            f"{DEFAULT_CATALOG}.{table_id}" for table_id in (world.table.mirror_id, world.table.changelog_id)
        )
        return cls(session, java.scratch, mirror, changelog)

    def query(self, sql: str) -> pa.Table:
        """Return the result of a query, unordered. It is passed through a file, which preserves all types."""
        folder = self.scratch / str(uuid4())
        self.session.sql(sql).coalesce(1).write().parquet(str(folder))
        return pq.read_table(folder)

    def call(self, procedure: str, subject: str | None = None) -> dict[str, object]:
        """Run one of Iceberg's procedures on the mirror or another table. Return the first row of its result."""
        catalog, table = (subject or self.mirror).split(".", 1)
        result = self.session.sql(f"CALL {catalog}.system.{procedure.format(table=repr(table))}")
        rows = result.collectAsList()
        if rows.isEmpty():
            return {}
        return {name: rows[0].getAs(name) for name in result.columns()}

    def rows_at(self, ids: Sequence[int | None]) -> dict[int | None, pa.Table]:
        """Return the mirror's rows at these snapshots (None: at its head), with one query."""
        selects = [
            f"SELECT {snapshot or 0}L AS {SNAPSHOT_COLUMN}, * FROM {self.mirror} "
            f"{f'VERSION AS OF {snapshot}' if snapshot else ''}"
            for snapshot in ids
        ]
        rows = self.query(" UNION ALL ".join(selects))
        return {snapshot: rows.filter(pc.equal(rows[SNAPSHOT_COLUMN], snapshot or 0)) for snapshot in ids}


def with_uuids(rows: pa.Table, mirror: Table) -> pa.Table:
    """Convert UUIDs, which Spark returns as text, to 16 bytes."""
    for field in mirror.schema().fields:
        if str(field.field_type) == "uuid":
            texts = rows[field.name].to_pylist()
            values = [None if text is None else UUID(text).bytes for text in texts]
            index = rows.schema.get_field_index(field.name)
            rows = rows.set_column(index, field.name, pa.array(values, pa.binary(16)))
    return rows
