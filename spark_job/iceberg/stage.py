"""The stage of a rebuild: a hidden table in the mirror's location, with a separate history and without a catalog entry.

The pipeline merges into it as into any mirror. Its metadata is stored in a file next to the index. Only the rebuild
that owns it reads this file, and nothing else references its data files until the swap.
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

from spark_job.iceberg.merged_schema import SOURCE_SCHEMA
from spark_job.iceberg.mirror import CURSOR, FIELD_MAP, FORMER_SOURCES, INDEX_ROOT, REBUILDS, SOURCE
from spark_job.iceberg.references import files_of_history, live_paths, manifests_by_snapshot
from spark_job.index.root import segment_paths
from spark_job.pyiceberg_private.manifest_files import enable_v3_metadata

SUFFIX = ".stage.metadata.json"
RESYNC_PREFIX = "resync-"  # request ids of rebuilds by policy begin with it
# Properties that every commit may change.
_COMMIT_PROPERTIES = (CURSOR, INDEX_ROOT, REBUILDS, FORMER_SOURCES)
SCHEMA_PROPERTIES = (FIELD_MAP, SOURCE, SOURCE_SCHEMA, "comment")
"""Properties that change with the mirror's columns, in the stage first."""
# No catalog lists these files, so orphan removal of other engines may delete them, by default after three days.
_MAX_IDLE_SECONDS = 24 * 3600.0


class StageFile(BaseModel):
    """The content of a stage's file. `goal`: sequence number of the changelog's head at the start.

    `before`: path of the previous file. `schema_id`: the mirror's schema at the start; the stage's may be newer.
    `made_with`: fingerprint of the settings.
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
class StageLocation:
    """Where the file of a stage is.

    A user's request is stored in the table's row, with the path of the stage's last file. A rebuild by policy has no
    request: it always overwrites one fixed file, whichever process works on it, for this `reason`.
    """

    request: str | None
    path: str | None
    reason: str | None = None

    @property
    def by_policy(self) -> bool:
        """Whether no user requested the rebuild."""
        return self.request is None


@dataclass(frozen=True)
class Stage:
    """The current state of a stage. `path`: its last file. `overwrites_file`: each save overwrites that file.

    `goal_sequence_number`: sequence number of the changelog's head at the start.
    """

    catalog: StageCatalog
    request: str
    goal_sequence_number: int
    events: int = 0
    path: str | None = None
    previous_path: str | None = None
    schema_id: int | None = None
    settings_fingerprint: str | None = None
    overwrites_file: bool = False

    @property
    def table(self) -> Table:
        """The table, with everything that was merged into it."""
        return self.catalog.load_table()


class StageCatalog(NoopCatalog):
    """A catalog with one table, in memory. It accepts every commit that is based on the table's head."""

    def __init__(self, name: tuple[str, ...], metadata: TableMetadata, io: FileIO) -> None:
        super().__init__("unlisted")
        if metadata.format_version >= 3:
            enable_v3_metadata()
        self.metadata = metadata
        self.io = io
        self._table = name

    def load_table(self, identifier: str | Identifier = "") -> Table:
        """Return the one table."""
        return Table(self._table, self.metadata, "", self.io, self)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Apply the updates."""
        for requirement in requirements:
            requirement.validate(self.metadata)
        self.metadata = update_table_metadata(self.metadata, updates)
        return CommitTableResponse.model_validate({"metadata": self.metadata, "metadata-location": ""})


def begin_stage(mirror: Table, location: StageLocation, settings_fingerprint: str) -> Stage:
    """Return an empty stage for the mirror as it is defined now."""
    metadata = _without_history(mirror.metadata)
    catalog = StageCatalog(mirror.name(), metadata, mirror.io)
    schema_id = metadata.current_schema_id
    if location.request is not None:
        return Stage(
            catalog,
            location.request,
            goal_sequence_number=0,
            schema_id=schema_id,
            settings_fingerprint=settings_fingerprint,
        )
    request = f"{RESYNC_PREFIX}{uuid.uuid4()}"
    return Stage(
        catalog,
        request,
        goal_sequence_number=0,
        path=location.path,
        schema_id=schema_id,
        settings_fingerprint=settings_fingerprint,
        overwrites_file=True,
    )


def find_stage(mirror: Table, location: StageLocation, settings_fingerprint: str) -> Stage | None:
    """Load a stage. None if its file is missing, was idle for too long, or the mirror or the settings have changed."""
    if location.path is None:
        return None
    try:
        saved, metadata = read_stage(mirror.io, location.path)
    except (FileNotFoundError, ValidationError):
        return None
    same = _is_built_for(metadata, _without_history(mirror.metadata), saved.schema_id)
    if location.request not in (None, saved.request) or not same or saved.made_with != settings_fingerprint:
        return None
    if time.time() - saved.touched_at > _MAX_IDLE_SECONDS:
        return None
    # A stage that was swapped in, whose file could not be deleted afterwards.
    if location.by_policy and saved.request in completed_rebuilds(mirror):
        return None
    catalog = StageCatalog(mirror.name(), metadata, mirror.io)
    return Stage(
        catalog,
        saved.request,
        saved.goal,
        saved.events,
        location.path,
        saved.before,
        saved.schema_id,
        saved.made_with,
        overwrites_file=location.by_policy,
    )


def save_stage(stage: Stage, location: str, events: int) -> Stage:
    """Write the stage's file after a merge of `events` more. The previous file stays: the table's row may name it."""
    path = stage.path if stage.overwrites_file and stage.path else f"{location}/{uuid.uuid4()}{SUFFIX}"
    previous_path = None if stage.overwrites_file else stage.path
    saved = StageFile(
        request=stage.request,
        touched_at=time.time(),
        goal=stage.goal_sequence_number,
        events=stage.events + events,
        before=previous_path,
        schema_id=stage.schema_id,
        made_with=stage.settings_fingerprint,
        metadata=stage.catalog.metadata.model_dump_json(),
    )
    with stage.catalog.io.new_output(path).create(overwrite=stage.overwrites_file) as stream:
        stream.write(saved.model_dump_json().encode())
    return replace(stage, events=saved.events, path=path, previous_path=previous_path)


def read_stage(io: FileIO, path: str) -> tuple[StageFile, TableMetadata]:
    """Read a stage's file. Return its content and the table metadata in it."""
    with io.new_input(path).open() as stream:
        saved = StageFile.model_validate_json(stream.read())
    return saved, TableMetadataUtil.parse_raw(saved.metadata)


def completed_rebuilds(mirror: Table) -> list[str]:
    """Return the request ids of the last rebuilds that were swapped in, the newest last."""
    return mirror.metadata.properties.get(REBUILDS, "").split()


def superseded_stage_files(io: FileIO, stage: Stage, root_path: str) -> set[str]:
    """Return all files that the stage wrote, except its live files and the segments of the root that replaces it."""
    metadata = stage.table.metadata
    head = metadata.current_snapshot()
    kept = set(segment_paths(io, root_path))
    if head is not None:
        kept |= live_paths(io, manifests_by_snapshot(io, [head])[head.snapshot_id])
    stage_files = {path for path in (stage.path, stage.previous_path) if path}
    return (files_of_history(io, metadata) | stage_files) - kept


def _without_history(metadata: TableMetadata) -> TableMetadata:
    """Return the definition of a table, without snapshots."""
    kept = {name: value for name, value in metadata.properties.items() if name not in _COMMIT_PROPERTIES}
    update: dict[str, object] = {
        "current_snapshot_id": None,
        "last_sequence_number": 0,
        "snapshots": [],
        "snapshot_log": [],
        "metadata_log": [],
        "refs": {},
        "statistics": [],
        "partition_statistics": [],
        # Nothing expires: a worker that lost its slot may still read files that this one has removed.
        "properties": {**kept, "gc.enabled": "false"},
    }
    if metadata.format_version >= 3:
        update["next_row_id"] = 0
    return metadata.model_copy(update=update)


def _is_built_for(stage: TableMetadata, mirror: TableMetadata, schema_id: int | None) -> bool:
    """Whether the stage was started, with this schema, for a table with the mirror's definition."""

    def definition(metadata: TableMetadata, schema: Schema | None) -> tuple[object, ...]:
        kept = {
            name: text
            for name, text in metadata.properties.items()
            if name not in _COMMIT_PROPERTIES and name not in SCHEMA_PROPERTIES
        }
        return (
            metadata.table_uuid,
            metadata.format_version,
            metadata.location,
            schema,
            metadata.spec(),
            metadata.sort_order(),
            kept,
        )

    started_with = stage.schema() if schema_id is None else stage.schema_by_id(schema_id)
    return definition(stage, started_with) == definition(mirror, mirror.schema())
