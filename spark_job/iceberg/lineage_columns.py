"""The columns of row lineage (format v3), which the spec reserves. https://iceberg.apache.org/spec/#row-lineage"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from icemirror.errors import Invalid

# Reserved field ids of the spec. The second one is NULL for a row that was changed: its file's number counts.
LINEAGE_COLUMNS = {"_row_id": 2147483540, "_last_updated_sequence_number": 2147483539}
ROW_ID = LINEAGE_COLUMNS["_row_id"]
LINEAGE_IDS = frozenset(LINEAGE_COLUMNS.values())


def require_free_names(name: str, schema: Schema) -> None:
    """Refuses columns whose names v3 gives to its own."""
    taken = [field.name for field in schema.fields if field.name in LINEAGE_COLUMNS]
    if taken:
        raise Invalid(f"{name}: a table of format version 3 cannot have a column {taken[0]}. Use version 2.")


def with_lineage(schema: Schema) -> Schema:
    """The schema with the columns of lineage."""
    return _extended(schema, list(LINEAGE_COLUMNS))


def written_schema(schema: Schema, rows: pa.Table) -> Schema:
    """The table's schema, with the columns of lineage where the rows have them."""
    return _extended(schema, [name for name in LINEAGE_COLUMNS if name in rows.column_names])


def _extended(schema: Schema, names: Sequence[str]) -> Schema:
    lineage = [
        NestedField(LINEAGE_COLUMNS[name], name, LongType(), required=False)
        for name in names
        if name not in schema.column_names
    ]
    return Schema(*schema.fields, *lineage) if lineage else schema
