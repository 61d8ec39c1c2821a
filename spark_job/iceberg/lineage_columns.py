"""The reserved columns of row lineage (format v3). https://iceberg.apache.org/spec/#row-lineage"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from icemirror.errors import Invalid

# Reserved field ids. The second column is NULL for a changed row, which then inherits its file's sequence number.
LINEAGE_COLUMNS = {"_row_id": 2147483540, "_last_updated_sequence_number": 2147483539}
ROW_ID = LINEAGE_COLUMNS["_row_id"]
LINEAGE_IDS = frozenset(LINEAGE_COLUMNS.values())


def refuse_reserved_names(name: str, schema: Schema) -> None:
    """Raise `Invalid` if a column has a name that format v3 reserves."""
    reserved = [field.name for field in schema.fields if field.name in LINEAGE_COLUMNS]
    if reserved:
        raise Invalid(
            f"{name}: a table of format version 3 cannot have a column {reserved[0]}. Use version 2."
        )


def with_lineage(schema: Schema) -> Schema:
    """Return the schema with the lineage columns."""
    return _with_columns(schema, list(LINEAGE_COLUMNS))


def written_schema(schema: Schema, rows: pa.Table) -> Schema:
    """Return the table's schema, with those lineage columns that the rows have."""
    return _with_columns(schema, [name for name in LINEAGE_COLUMNS if name in rows.column_names])


def _with_columns(schema: Schema, names: Sequence[str]) -> Schema:
    lineage = [
        NestedField(LINEAGE_COLUMNS[name], name, LongType(), required=False)
        for name in names
        if name not in schema.column_names
    ]
    return Schema(*schema.fields, *lineage) if lineage else schema
