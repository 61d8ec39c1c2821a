"""A changelog in a catalog that assigns its own field ids to a new table, as Nessie does."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile

from icemirror.cli.demo.writer import ChangelogWriter


@dataclass(frozen=True)
class RenumberedChangelog(ChangelogWriter):
    """Writes files with the field ids of the table, as every Iceberg writer does."""

    @classmethod
    def of(cls, changelog: ChangelogWriter) -> RenumberedChangelog:
        return cls(changelog.subject, changelog.table, changelog.journal)

    def _write(self, path: str, events: pa.Table) -> DataFile:
        schema = schema_to_pyarrow(self.table.schema())
        return super()._write(path, events.select(schema.names).cast(schema))
