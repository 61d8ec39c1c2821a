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

from icemirror.catalogs.catalog_name import DEFAULT_CATALOG
from tests.interop.iceberg_java import IcebergJava, JavaObject
from tests.lab.lab import Lab
from tests.mirrors import MirroredWorld

SNAPSHOT_COLUMN = "read_at_snapshot"


@dataclass(frozen=True)
class SparkSql:
    """Queries and changes the table `mirror`."""

    session: JavaObject
    scratch: Path
    mirror: str
    changelog: str = ""

    @classmethod
    def on(cls, java: IcebergJava, lab: MirroredWorld | Lab) -> SparkSql:
        """Both catalogs store their name in every row of the database, so the names must be equal."""
        session = java.spark.newSession()
        properties = lab.settings.catalog_properties(None)
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
            f"{DEFAULT_CATALOG}.{one}" for one in (lab.table.mirror_id, lab.table.changelog_id)
        )
        return cls(session, java.scratch, mirror, changelog)

    def ask(self, query: str) -> pa.Table:
        """The result of a query, unordered, passed through a file so that nothing is lost."""
        folder = self.scratch / str(uuid4())
        self.session.sql(query).coalesce(1).write().parquet(str(folder))
        return pq.read_table(folder)

    def call(self, procedure: str, subject: str | None = None) -> dict[str, object]:
        """Run one of Iceberg's procedures on the mirror or another table. Return the first row of its result."""
        catalog, table = (subject or self.mirror).split(".", 1)
        answer = self.session.sql(f"CALL {catalog}.system.{procedure.format(table=repr(table))}")
        rows = answer.collectAsList()
        if rows.isEmpty():
            return {}
        return {name: rows[0].getAs(name) for name in answer.columns()}

    def rows_at(self, ids: Sequence[int | None]) -> dict[int | None, pa.Table]:
        """The mirror's rows at these snapshots (None: at its head), by one query."""
        parts = [
            f"SELECT {at or 0}L AS {SNAPSHOT_COLUMN}, * FROM {self.mirror} {f'VERSION AS OF {at}' if at else ''}"
            for at in ids
        ]
        answer = self.ask(" UNION ALL ".join(parts))
        return {at: answer.filter(pc.equal(answer[SNAPSHOT_COLUMN], at or 0)) for at in ids}


def with_uuids(rows: pa.Table, mirror: Table) -> pa.Table:
    """Spark shows a uuid as its text; here it is 16 bytes again."""
    for field in mirror.schema().fields:
        if str(field.field_type) == "uuid":
            texts = rows[field.name].to_pylist()
            values = [None if text is None else UUID(text).bytes for text in texts]
            at = rows.schema.get_field_index(field.name)
            rows = rows.set_column(at, field.name, pa.array(values, pa.binary(16)))
    return rows
