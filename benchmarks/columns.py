"""The columns that every file of the benchmarks has: the key, and the metadata columns of a changelog."""

from __future__ import annotations

import pyarrow as pa

KEY = "id"
OPERATION = "cdc_operation"
SEQUENCE = "sequence_number"


def row_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns of the row, without the metadata columns."""
    return pa.schema([field.remove_metadata() for field in schema if field.name not in (OPERATION, SEQUENCE)])
