"""What a mirror notes of its changelog's schema: which one it has followed, and what it made of it.

It is kept in the table property `icemirror.source-schema`, and moves in the commits that move the mirror's columns.
Mirrors of earlier versions have none; their next commit notes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

SOURCE_SCHEMA = "icemirror.source-schema"


class SchemaNote(BaseModel):
    """Ids of schemas: the changelog's that was followed, the newest that it had then, the mirror's after that.

    `comment`: the changelog's description of the table. `named`: names in the setting `columns` → the field ids of the
    changelog that they have meant, so that a column stays chosen, or left out, under another name. `dropped`: field
    ids of the changelog that it has no more, and the mirror still has. `own`: field ids of the mirror's own columns, by
    what they are.
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


def read_note(properties: Mapping[str, str]) -> SchemaNote | None:
    """What is noted; None if nothing is, or nothing that can be read."""
    try:
        return SchemaNote.model_validate_json(properties.get(SOURCE_SCHEMA, ""))
    except ValidationError:
        return None
