"""The columns that a swap gives the mirror: those of the stage, which has followed its changelog by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from spark_job.iceberg.next_schema import numbered
from spark_job.schema_changes.schema_note import SOURCE_SCHEMA, read_note
from spark_job.staging.stage import FOLLOWING


@dataclass(frozen=True)
class BuiltColumns:
    """`schema` becomes the mirror's current one; None: it is that already."""

    schema: Schema | None
    properties: Mapping[str, str]


def built_columns(mirror: TableMetadata, stage: TableMetadata) -> BuiltColumns:
    """What has to change for the files of the stage to be read in the mirror."""
    told = {name: stage.properties[name] for name in FOLLOWING if name in stage.properties}
    schema = mirror.schema() if stage.schema() == mirror.schema() else numbered(mirror, stage.schema())
    note = read_note(told)
    if note is not None:
        told[SOURCE_SCHEMA] = note.model_copy(update={"mirror_schema": schema.schema_id}).model_dump_json()
    changed = {name: text for name, text in told.items() if mirror.properties.get(name) != text}
    return BuiltColumns(schema if schema.schema_id != mirror.current_schema_id else None, changed)
