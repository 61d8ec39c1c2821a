"""The stage of a rebuild: a hidden table in the mirror's location, with a separate history and without a catalog entry.

The pipeline merges into it as into any mirror. Its metadata is stored in a file next to the index. Only the rebuild
that owns it reads this file, and nothing else references its data files until the swap.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace

from pydantic import ValidationError
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.typedef import Identifier

from spark_job.iceberg.property_names import (
    PROPERTY_CURSOR,
    PROPERTY_FIELD_MAP,
    PROPERTY_FORMER_SOURCES,
    PROPERTY_INDEX_ROOT,
    PROPERTY_REBUILDS,
    PROPERTY_SOURCE,
    PROPERTY_SOURCE_SCHEMA,
)
from spark_job.iceberg.references import find_referenced_files, live_paths, manifests_by_snapshot
from spark_job.iceberg.stage_file import STAGE_FILE_SUFFIX, StageFile, read_stage_file, write_stage_file
from spark_job.index.root import segment_paths
from spark_job.pyiceberg_private.manifest_files import enable_v3_metadata

RESYNC_PREFIX = "resync-"  # request ids of rebuilds by policy begin with it
# Properties that every commit may change.
_COMMIT_PROPERTIES = (PROPERTY_CURSOR, PROPERTY_INDEX_ROOT, PROPERTY_REBUILDS, PROPERTY_FORMER_SOURCES)
SCHEMA_PROPERTIES = (PROPERTY_FIELD_MAP, PROPERTY_SOURCE, PROPERTY_SOURCE_SCHEMA, "comment")
"""Properties that change with the mirror's columns, in the stage first."""
# No catalog lists these files, so orphan removal of other engines may delete them, by default after three days.
_MAX_IDLE_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class StageLocation:
    """Where the file of a stage is.

    A user's request is stored in the table's row, with the path of the stage's last file. A rebuild by policy has no
    request: it always overwrites one fixed file, whichever process works on it, for this `reason`.
    """

    request_id: str | None
    path: str | None
    reason: str | None = None

    @property
    def is_by_policy(self) -> bool:
        """Return whether no user requested the rebuild."""
        return self.request_id is None


@dataclass(frozen=True)
class Stage:
    """The current state of a stage. `path`: its last file. `overwrites_file`: each save overwrites that file.

    `goal_sequence_number`: sequence number of the changelog's head at the start.
    """

    catalog: StageCatalog
    request_id: str
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


def begin_stage(mirror_table: Table, location: StageLocation, settings_fingerprint: str) -> Stage:
    """Return an empty stage for the mirror as it is defined now."""
    metadata = _without_history(mirror_table.metadata)
    catalog = StageCatalog(mirror_table.name(), metadata, mirror_table.io)
    return Stage(
        catalog,
        f"{RESYNC_PREFIX}{uuid.uuid4()}" if location.request_id is None else location.request_id,
        goal_sequence_number=0,
        path=location.path if location.is_by_policy else None,
        schema_id=metadata.current_schema_id,
        settings_fingerprint=settings_fingerprint,
        overwrites_file=location.is_by_policy,
    )


def find_stage(mirror_table: Table, location: StageLocation, settings_fingerprint: str) -> Stage | None:
    """Return a saved stage; None if its file is missing, was idle for too long, or mirror or settings have changed."""
    if location.path is None:
        return None
    try:
        stage_file, metadata = read_stage_file(mirror_table.io, location.path)
    except (FileNotFoundError, ValidationError):
        return None
    is_same_definition = _is_built_for(
        metadata, _without_history(mirror_table.metadata), stage_file.schema_id
    )
    is_same_request = location.request_id in (None, stage_file.request)
    if not (
        is_same_request and is_same_definition and stage_file.settings_fingerprint == settings_fingerprint
    ):
        return None
    if time.time() - stage_file.touched_at > _MAX_IDLE_SECONDS:
        return None
    # A stage that was swapped in, whose file could not be deleted afterwards.
    if location.is_by_policy and stage_file.request in completed_rebuilds(mirror_table):
        return None
    catalog = StageCatalog(mirror_table.name(), metadata, mirror_table.io)
    return Stage(
        catalog,
        stage_file.request,
        stage_file.goal,
        stage_file.events,
        location.path,
        stage_file.previous_path,
        stage_file.schema_id,
        stage_file.settings_fingerprint,
        overwrites_file=location.is_by_policy,
    )


def save_stage(stage: Stage, location: str, events: int) -> Stage:
    """Write the stage's file after a merge of `events` more. The previous file stays: the state row may refer to it."""
    path = (
        stage.path
        if stage.overwrites_file and stage.path
        else f"{location}/{uuid.uuid4()}{STAGE_FILE_SUFFIX}"
    )
    previous_path = None if stage.overwrites_file else stage.path
    stage_file = StageFile(
        request=stage.request_id,
        touched_at=time.time(),
        goal=stage.goal_sequence_number,
        events=stage.events + events,
        previous_path=previous_path,
        schema_id=stage.schema_id,
        settings_fingerprint=stage.settings_fingerprint,
        metadata=stage.catalog.metadata.model_dump_json(),
    )
    write_stage_file(stage.catalog.io, path, stage_file, overwrite=stage.overwrites_file)
    return replace(stage, events=stage_file.events, path=path, previous_path=previous_path)


def completed_rebuilds(mirror_table: Table) -> list[str]:
    """Return the request ids of the last rebuilds that were swapped in, the newest last."""
    return mirror_table.metadata.properties.get(PROPERTY_REBUILDS, "").split()


def superseded_stage_files(io: FileIO, stage: Stage, root_path: str) -> set[str]:
    """Return all files that the stage wrote, except its live files and the segments of the root that replaces it."""
    metadata = stage.table.metadata
    head = metadata.current_snapshot()
    needed_paths = set(segment_paths(io, root_path))
    if head is not None:
        needed_paths |= live_paths(io, manifests_by_snapshot(io, [head])[head.snapshot_id])
    stage_file_paths = {path for path in (stage.path, stage.previous_path) if path}
    return (find_referenced_files(io, metadata) | stage_file_paths) - needed_paths


def _without_history(metadata: TableMetadata) -> TableMetadata:
    """Return the definition of a table, without snapshots."""
    properties = {
        name: value for name, value in metadata.properties.items() if name not in _COMMIT_PROPERTIES
    }
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
        "properties": {**properties, "gc.enabled": "false"},
    }
    if metadata.format_version >= 3:
        update["next_row_id"] = 0
    return metadata.model_copy(update=update)


def _is_built_for(
    stage_metadata: TableMetadata, mirror_metadata: TableMetadata, schema_id: int | None
) -> bool:
    """Return whether the stage was started, with this schema, for a table with the mirror's definition."""

    def definition(metadata: TableMetadata, schema: Schema | None) -> tuple[object, ...]:
        properties = {
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
            properties,
        )

    schema_at_start = stage_metadata.schema() if schema_id is None else stage_metadata.schema_by_id(schema_id)
    return definition(stage_metadata, schema_at_start) == definition(
        mirror_metadata, mirror_metadata.schema()
    )
