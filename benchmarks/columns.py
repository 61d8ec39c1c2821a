"""The columns that every file of the benchmarks has: the key, and what a changelog adds to the row."""

from __future__ import annotations

import pyarrow as pa

KEY = "id"
OPERATION = "cdc_operation"
SEQUENCE = "sequence_number"


def row_columns(schema: pa.Schema) -> pa.Schema:
    """The columns of the row itself."""
    return pa.schema([field.remove_metadata() for field in schema if field.name not in (OPERATION, SEQUENCE)])
