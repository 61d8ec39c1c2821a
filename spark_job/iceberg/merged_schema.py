"""Which changelog schema a mirror has followed. Stored in the table property `icemirror.source-schema`.

The commits that change the mirror's columns also change this property. Mirrors of earlier versions lack it; their next
commit adds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pyiceberg.table.metadata import TableMetadata

from spark_job.iceberg.property_names import PROPERTY_SOURCE_SCHEMA


class MergedSchema(BaseModel):
    """Schema ids: the changelog's schema that was followed, its newest one at that time, and the mirror's afterwards.

    `comment`: the changelog's table comment. `named`: names in the setting `columns` → the changelog's field ids that
    they referred to, so that a renamed column stays included or excluded. `dropped`: the changelog's field ids that it
    dropped and the mirror still has. `metadata_columns`: role → field id of the mirror's metadata columns;
    stored as `own`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    version: Literal[1] = 1
    changelog_schema: int
    newest_schema: int
    mirror_schema: int
    comment: str | None = None
    named: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    dropped: tuple[int, ...] = ()
    metadata_columns: dict[str, int] = Field(
        default_factory=dict, validation_alias="own", serialization_alias="own"
    )


def read_merged_schema(properties: Mapping[str, str]) -> MergedSchema | None:
    """Parse the property; None if it is missing or unreadable."""
    try:
        return MergedSchema.model_validate_json(properties.get(PROPERTY_SOURCE_SCHEMA, ""))
    except ValidationError:
        return None


def known_metadata_columns(mirror_metadata: TableMetadata) -> Mapping[str, int]:
    """Return the field ids of the mirror's metadata columns by role, for any changelog."""
    merged_schema = read_merged_schema(mirror_metadata.properties)
    return merged_schema.metadata_columns if merged_schema else {}
