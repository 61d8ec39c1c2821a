"""Which changelog schema a mirror has followed. Stored in the table property `icemirror.source-schema`.

The commits that change the mirror's columns also change this property. Mirrors of earlier versions lack it; their next
commit adds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

SOURCE_SCHEMA = "icemirror.source-schema"


class MergedSchema(BaseModel):
    """Schema ids: the changelog's schema that was followed, its newest one at that time, and the mirror's afterwards.

    `comment`: the changelog's table comment. `named`: names in the setting `columns` → the changelog's field ids that
    they referred to, so that a renamed column stays included or excluded. `dropped`: the changelog's field ids that it
    dropped and the mirror still has. `own`: role → field id of the mirror's metadata columns.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    changelog_schema: int
    newest_schema: int
    mirror_schema: int
    comment: str | None = None
    named: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    dropped: tuple[int, ...] = ()
    own: dict[str, int] = Field(default_factory=dict)


def read_merged_schema(properties: Mapping[str, str]) -> MergedSchema | None:
    """Parse the property; None if it is missing or unreadable."""
    try:
        return MergedSchema.model_validate_json(properties.get(SOURCE_SCHEMA, ""))
    except ValidationError:
        return None


def assign_schema_id(metadata: TableMetadata, schema: Schema) -> Schema:
    """Return the schema with an id: the id of an equal schema that the table has had, else the next free one."""
    equal = next((known for known in metadata.schemas if known == schema), None)
    if equal is not None:
        return equal
    number = 1 + max(known.schema_id for known in metadata.schemas)
    return schema.model_copy(update={"schema_id": number})
