"""What a schema change needs besides the columns: a schema id, and properties that contain the names of columns."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField

from icemirror.tables.mirror_properties import BLOOM_FILTER_FPP, BLOOM_FILTER_NDV
from spark_job.iceberg.metrics_modes import METRICS_COLUMN_PREFIX
from spark_job.iceberg.parquet_options import BLOOM_FILTER

_COLUMN_PREFIXES = (METRICS_COLUMN_PREFIX, BLOOM_FILTER, BLOOM_FILTER_FPP, BLOOM_FILTER_NDV)


def assign_schema_id(metadata: TableMetadata, schema: Schema) -> Schema:
    """Return the schema with an id: the id of an equal schema that the table has had, else the next free one."""
    equal_schema = next((old_schema for old_schema in metadata.schemas if old_schema == schema), None)
    if equal_schema is not None:
        return equal_schema
    schema_id = 1 + max(old_schema.schema_id for old_schema in metadata.schemas)
    return schema.model_copy(update={"schema_id": schema_id})


def renamed_properties(
    old_schema: Schema, new_schema: Schema, properties: Mapping[str, str]
) -> dict[str, str]:
    """Return the properties to set when columns are renamed: those that contain a column's name, as in Iceberg Java."""
    renamed: dict[str, str] = {}
    for prefix in _COLUMN_PREFIXES:
        for name, text in properties.items():
            if not name.startswith(prefix):
                continue
            column = _find_column(old_schema, name.removeprefix(prefix))
            new_name = new_schema.find_column_name(column.field_id) if column is not None else None
            if new_name is not None and f"{prefix}{new_name}" != name:
                renamed[f"{prefix}{new_name}"] = text
    return renamed


def _find_column(schema: Schema, name: str) -> NestedField | None:
    try:
        return schema.find_field(name)
    except ValueError:
        return None
