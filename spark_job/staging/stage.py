"""A mirror that is built out of sight: a table of its own history, which no catalog knows, in the same places.

The pipeline merges into it as into any mirror. What it commits is kept in a file beside the index; nobody but the
rebuild that owns it reads that, and nobody else names its data files until the swap.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.typedef import Identifier

from spark_job.iceberg.mirror import CURSOR, FIELD_MAP, FORMER_SOURCES, INDEX_ROOT, REBUILDS, SOURCE
from spark_job.iceberg.seams import allow_v3_metadata
from spark_job.schema_changes.schema_note import SOURCE_SCHEMA

SUFFIX = ".stage.metadata.json"
BY_POLICY = "resync-"  # how the names of rebuilds begin that nobody asked for
# Properties that commits change, whatever the table is.
_MOVING = (CURSOR, INDEX_ROOT, REBUILDS, FORMER_SOURCES)
FOLLOWING = (FIELD_MAP, SOURCE, SOURCE_SCHEMA, "comment")
"""Properties that move with the mirror's columns, in the stage first."""
# Nobody else knows the files, so whoever removes orphans may remove them; engines keep those of the last three days.
_LONGEST_REST_SECONDS = 24 * 3600.0


class StageFile(BaseModel):
    """What is kept. `goal`: the number of the changelog's newest commit at the beginning; `before`: the file before.

    `schema_id`: the mirror's schema at the beginning, from which that of the stage may have moved on. `made_with`: a
    mark of the settings.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    request: str
    touched_at: float
    goal: int
    events: int
    before: str | None
    schema_id: int | None = None
    made_with: str | None = None
    metadata: str


@dataclass(frozen=True)
class Place:
    """Where a stage is to be found: by the request of a person, or where a rebuild by policy always keeps its own.

    A person's request is noted in the table's row, with the file that the stage was last kept in (`path`). Nobody
    notes where a rebuild by policy is: its file is always the same one, written over, whichever process works on it.
    `reason`: why that is done.
    """

    request: str | None
    path: str | None
    reason: str | None = None

    @property
    def by_policy(self) -> bool:
        """Nobody asked."""
        return self.request is None


@dataclass(frozen=True)
class Stage:
    """A mirror in the making, as far as it is. `path`: where it is kept; `fixed`: always in that file."""

    catalog: Unlisted
    request: str
    goal: int
    events: int = 0
    path: str | None = None
    before: str | None = None
    schema_id: int | None = None
    made_with: str | None = None
    fixed: bool = False

    @property
    def table(self) -> Table:
        """The table, with what was merged into it."""
        return self.catalog.load_table()

    def save(self, location: str, events: int) -> Stage:
        """Keeps what was merged since; `events` more. The file before stays, for a row that still names it."""
        path = self.path if self.fixed and self.path else f"{location}/{uuid.uuid4()}{SUFFIX}"
        before = None if self.fixed else self.path
        kept = StageFile(
            request=self.request,
            touched_at=time.time(),
            goal=self.goal,
            events=self.events + events,
            before=before,
            schema_id=self.schema_id,
            made_with=self.made_with,
            metadata=self.catalog.metadata.model_dump_json(),
        )
        with self.catalog.io.new_output(path).create(overwrite=self.fixed) as stream:
            stream.write(kept.model_dump_json().encode())
        return replace(self, events=kept.events, path=path, before=before)


class Unlisted(NoopCatalog):
    """The catalog of one table: takes every commit that is made on its head, and tells nobody."""

    def __init__(self, name: tuple[str, ...], metadata: TableMetadata, io: FileIO) -> None:
        super().__init__("unlisted")
        if metadata.format_version >= 3:
            allow_v3_metadata()
        self.metadata = metadata
        self.io = io
        self._table = name

    def load_table(self, identifier: str | Identifier = "") -> Table:
        """The one table, whatever it is called."""
        return Table(self._table, self.metadata, "", self.io, self)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Takes the updates."""
        for requirement in requirements:
            requirement.validate(self.metadata)
        self.metadata = update_table_metadata(self.metadata, updates)
        return CommitTableResponse.model_validate({"metadata": self.metadata, "metadata-location": ""})


def begin_stage(mirror: Table, place: Place, made_with: str) -> Stage:
    """A stage without rows, for the mirror as it is defined now."""
    metadata = _emptied(mirror.metadata)
    catalog = Unlisted(mirror.name(), metadata, mirror.io)
    schema_id = metadata.current_schema_id
    if place.request is not None:
        return Stage(catalog, place.request, goal=0, schema_id=schema_id, made_with=made_with)
    request = f"{BY_POLICY}{uuid.uuid4()}"
    return Stage(
        catalog, request, goal=0, path=place.path, schema_id=schema_id, made_with=made_with, fixed=True
    )


def find_stage(mirror: Table, place: Place, made_with: str) -> Stage | None:
    """The stage in a file; None if it is gone, has rested too long, or mirror or settings are other ones by now."""
    if place.path is None:
        return None
    try:
        kept, metadata = read_stage(mirror.io, place.path)
    except (FileNotFoundError, ValidationError):
        return None
    same = _is_same(metadata, _emptied(mirror.metadata), kept.schema_id)
    if place.request not in (None, kept.request) or not same or kept.made_with != made_with:
        return None
    if time.time() - kept.touched_at > _LONGEST_REST_SECONDS:
        return None
    if place.by_policy and kept.request in fulfilled(mirror):  # whoever swapped it in could not remove it
        return None
    catalog = Unlisted(mirror.name(), metadata, mirror.io)
    return Stage(
        catalog,
        kept.request,
        kept.goal,
        kept.events,
        place.path,
        kept.before,
        kept.schema_id,
        kept.made_with,
        fixed=place.by_policy,
    )


def read_stage(io: FileIO, path: str) -> tuple[StageFile, TableMetadata]:
    """What is in a stage's file."""
    with io.new_input(path).open() as stream:
        kept = StageFile.model_validate_json(stream.read())
    return kept, TableMetadataUtil.parse_raw(kept.metadata)


def fulfilled(mirror: Table) -> list[str]:
    """The last requests of rebuilds that were swapped in, the newest last."""
    return mirror.metadata.properties.get(REBUILDS, "").split()


def _emptied(metadata: TableMetadata) -> TableMetadata:
    """The definition of a table, without its history."""
    ours = {name: value for name, value in metadata.properties.items() if name not in _MOVING}
    update: dict[str, object] = {
        "current_snapshot_id": None,
        "last_sequence_number": 0,
        "snapshots": [],
        "snapshot_log": [],
        "metadata_log": [],
        "refs": {},
        "statistics": [],
        "partition_statistics": [],
        # Nothing expires there: a worker that lost its slot may still read what this one has taken out.
        "properties": {**ours, "gc.enabled": "false"},
    }
    if metadata.format_version >= 3:
        update["next_row_id"] = 0
    return metadata.model_copy(update=update)


def _is_same(one: TableMetadata, other: TableMetadata, schema_id: int | None) -> bool:
    """Whether one was begun, with this schema, for a table that is defined as the other."""

    def definition(metadata: TableMetadata, schema: Schema | None) -> tuple[object, ...]:
        ours = {
            name: text
            for name, text in metadata.properties.items()
            if name not in _MOVING and name not in FOLLOWING
        }
        return (
            metadata.table_uuid,
            metadata.format_version,
            metadata.location,
            schema,
            metadata.spec(),
            metadata.sort_order(),
            ours,
        )

    begun_with = one.schema() if schema_id is None else one.schema_by_id(schema_id)
    return definition(one, begun_with) == definition(other, other.schema())
