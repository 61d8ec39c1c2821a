"""The file that stores a stage between two steps of a rebuild."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

STAGE_FILE_SUFFIX = ".stage.metadata.json"


class StageFile(BaseModel):
    """The content of a stage's file. `goal`: sequence number of the changelog's head at the start.

    `previous_path` is stored as `before`. `schema_id`: the mirror's schema at the start; the stage's may be newer.
    `settings_fingerprint` is stored as `made_with`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    version: Literal[1] = 1
    request: str
    touched_at: float
    goal: int
    events: int
    previous_path: str | None = Field(validation_alias="before", serialization_alias="before")
    schema_id: int | None = None
    settings_fingerprint: str | None = Field(
        default=None, validation_alias="made_with", serialization_alias="made_with"
    )
    metadata: str


def read_stage_file(io: FileIO, path: str) -> tuple[StageFile, TableMetadata]:
    """Read a stage's file. Return its content and the table metadata in it."""
    with io.new_input(path).open() as stream:
        stage_file = StageFile.model_validate_json(stream.read())
    return stage_file, TableMetadataUtil.parse_raw(stage_file.metadata)


def write_stage_file(io: FileIO, path: str, stage_file: StageFile, *, overwrite: bool) -> None:
    """Write a stage's file."""
    with io.new_output(path).create(overwrite=overwrite) as stream:
        stream.write(stage_file.model_dump_json(by_alias=True).encode())
