"""The id of a schema that a table is to get."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata


def numbered(metadata: TableMetadata, schema: Schema) -> Schema:
    """The schema with its id: that of the same one which the table had before, else the next, as catalogs count."""
    known = next((one for one in metadata.schemas if one == schema), None)
    if known is not None:
        return known
    number = 1 + max(one.schema_id for one in metadata.schemas)
    return schema.model_copy(update={"schema_id": number})
