"""The schema that a swap gives the mirror: that of the stage, which followed its changelog separately."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from spark_job.iceberg.merged_schema import SOURCE_SCHEMA, assign_schema_id, read_merged_schema
from spark_job.iceberg.stage import SCHEMA_PROPERTIES


@dataclass(frozen=True)
class BuiltColumns:
    """The schema and properties to set; `schema` is None if it is current already."""

    schema: Schema | None
    properties: Mapping[str, str]


def built_columns(mirror: TableMetadata, stage: TableMetadata) -> BuiltColumns:
    """Return what has to change so that the mirror can read the files of the stage."""
    properties = {name: stage.properties[name] for name in SCHEMA_PROPERTIES if name in stage.properties}
    schema = (
        mirror.schema() if stage.schema() == mirror.schema() else assign_schema_id(mirror, stage.schema())
    )
    note = read_merged_schema(properties)
    if note is not None:
        properties[SOURCE_SCHEMA] = note.model_copy(
            update={"mirror_schema": schema.schema_id}
        ).model_dump_json()
    changed = {name: text for name, text in properties.items() if mirror.properties.get(name) != text}
    return BuiltColumns(schema if schema.schema_id != mirror.current_schema_id else None, changed)
