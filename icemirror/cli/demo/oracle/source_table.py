"""The source table that a mirror is compared with: its columns and key, and the two change columns."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

OPERATION_COLUMN = "cdc_operation"
SEQUENCE_COLUMN = "sequence_number"


@dataclass(frozen=True)
class SourceTable:
    """A source table, by its name in the journal."""

    name: str
    columns: pa.Schema
    key: tuple[str, ...]
    operation: str = OPERATION_COLUMN
    sequence: str = SEQUENCE_COLUMN

    @classmethod
    def of(cls, name: str, changelog: Schema) -> SourceTable:
        """Return the source of a changelog: the schema without change columns, identifier fields as key."""
        arrow = schema_to_pyarrow(changelog, include_field_ids=False)
        columns = [field for field in arrow if field.name not in (OPERATION_COLUMN, SEQUENCE_COLUMN)]
        key = tuple(
            field.name for field in changelog.fields if field.field_id in set(changelog.identifier_field_ids)
        )
        return cls(name, pa.schema(columns), key)

    @property
    def key_columns(self) -> pa.Schema:
        """The key's columns with their types."""
        return pa.schema([self.columns.field(name) for name in self.key])
