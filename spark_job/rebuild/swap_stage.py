"""Publishes a stage: one snapshot on the mirror replaces all of its files, its index and its cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from icemirror.errors import Corrupt, Invalid
from icemirror.processes.crash_points import crash_point
from icemirror.settings import TableSettings
from icemirror.step_results import MirrorStatus
from icemirror.tables.cursor import Cursor
from icemirror.telemetry.logs import get_log
from spark_job.commit.commit_snapshot import CommitCrashPoints, commit_snapshot
from spark_job.commit.swap_snapshot import Swap
from spark_job.iceberg.cursor_property import last_epoch
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.manifests import load_manifests
from spark_job.iceberg.merged_schema import read_merged_schema
from spark_job.iceberg.property_names import (
    PROPERTY_FORMER_SOURCES,
    PROPERTY_REBUILDS,
    PROPERTY_REPLAY,
    PROPERTY_SOURCE,
    PROPERTY_SOURCE_SCHEMA,
)
from spark_job.iceberg.schema_change import assign_schema_id
from spark_job.iceberg.stage import SCHEMA_PROPERTIES, Stage, completed_rebuilds, superseded_stage_files
from spark_job.index.location import index_location, root_path
from spark_job.index.root import Root
from spark_job.plan.table_plan import TablePlan
from spark_job.rebuild.executor import PlanExecutor
from spark_job.storage.discard import discard
from spark_job.storage.parallel import map_parallel

_MAX_RECORDED_REBUILDS = 16
_MAX_FORMER_SOURCES = 16
_CRASH_POINTS = CommitCrashPoints("swap-root-written", "swap", "swapped")

log = get_log(__name__)


class StageDamaged(Corrupt):
    """The stage cannot be swapped in, and retrying does not help: it has to be built again."""


def swap_stage(
    executor: PlanExecutor,
    table_settings: TableSettings,
    mirror_table: Table,
    stage: Stage,
    stage_plan: TablePlan,
    merged_changelogs: Sequence[str],
) -> MirrorStatus:
    """Replace the mirror's content by the stage, on the head that the stage was compared with. Return its status."""
    stage_mirror, io = stage_plan.mirror, mirror_table.io
    if stage_mirror is None or (
        stage_mirror.head is not None and (stage_mirror.root is None or stage_mirror.cursor is None)
    ):
        raise Invalid(f"{table_settings.name}: the stage has no content to replace the mirror with")
    cursor = stage_mirror.cursor or Cursor(sources=())  # of a changelog without a commit
    snapshot_id = mirror_table.metadata.new_snapshot_id()
    location = index_location(mirror_table.metadata, executor.settings.index_location)
    epoch = last_epoch(mirror_table.metadata) + 1
    empty_root = Root(snapshot_id=snapshot_id, epoch=epoch, segments=(), files=())
    root = (stage_mirror.root or empty_root).model_copy(update={"snapshot_id": snapshot_id, "epoch": epoch})
    swap_schema = schema_after_swap(mirror_table.metadata, stage_mirror.table.metadata)
    files = list(live_files(io, stage_mirror.head).values())
    _require_files(io, table_settings.name, files, root)
    swap = Swap(
        table=mirror_table,
        head=mirror_table.current_snapshot(),
        snapshot_id=snapshot_id,
        data_files=(),
        delete_files=(),
        summary={PROPERTY_REPLAY: stage.request_id},
        schema=swap_schema.schema,
        properties={
            **swap_schema.properties,
            **_source_properties(mirror_table, stage_plan, merged_changelogs),
            PROPERTY_REBUILDS: " ".join(
                [*completed_rebuilds(mirror_table), stage.request_id][-_MAX_RECORDED_REBUILDS:]
            ),
        },
        staged=load_manifests(io, stage_mirror.head) if stage_mirror.head else (),
    )
    commit_snapshot(
        swap, root, cursor, executor.run_id, location, crash_points=_CRASH_POINTS, empties_table=not files
    )
    log.info("mirror rebuilt", replay=stage.request_id, live_rows=root.live_rows, events=stage.events)
    _remove_stage(stage, mirror_table, root_path(location, root))
    return MirrorStatus(cursor=stage_mirror.cursor, live_rows=root.live_rows, index_bytes=root.bytes)


@dataclass(frozen=True)
class SwapSchema:
    """The schema and properties to set; `schema` is None if the mirror has it already."""

    schema: Schema | None
    properties: Mapping[str, str]


def schema_after_swap(mirror_metadata: TableMetadata, stage_metadata: TableMetadata) -> SwapSchema:
    """Return what has to change so that the mirror can read the files of the stage."""
    properties = {
        name: stage_metadata.properties[name]
        for name in SCHEMA_PROPERTIES
        if name in stage_metadata.properties
    }
    schema = (
        mirror_metadata.schema()
        if stage_metadata.schema() == mirror_metadata.schema()
        else assign_schema_id(mirror_metadata, stage_metadata.schema())
    )
    merged_schema = read_merged_schema(properties)
    if merged_schema is not None:
        properties[PROPERTY_SOURCE_SCHEMA] = merged_schema.model_copy(
            update={"mirror_schema": schema.schema_id}
        ).model_dump_json(by_alias=True)
    changed = {
        name: text for name, text in properties.items() if mirror_metadata.properties.get(name) != text
    }
    return SwapSchema(schema if schema.schema_id != mirror_metadata.current_schema_id else None, changed)


def _source_properties(
    mirror_table: Table, stage_plan: TablePlan, merged_changelogs: Sequence[str]
) -> dict[str, str]:
    """Return the properties for the changelog that the mirror follows from now on, and for those before it."""
    properties, new_uuid = mirror_table.metadata.properties, str(stage_plan.changelog.metadata.table_uuid)
    old_uuids = [*properties.get(PROPERTY_FORMER_SOURCES, "").split(), *merged_changelogs]
    updates = {PROPERTY_SOURCE: f"{stage_plan.table_settings.changelog_id} {new_uuid}"}
    if former_uuids := [uuid for uuid in dict.fromkeys(old_uuids) if uuid not in ("", new_uuid)]:
        updates[PROPERTY_FORMER_SOURCES] = " ".join(former_uuids[-_MAX_FORMER_SOURCES:])
    elif PROPERTY_FORMER_SOURCES in properties:
        updates[PROPERTY_FORMER_SOURCES] = ""
    return updates


def _require_files(io: FileIO, name: str, files: Sequence[LiveFile], root: Root) -> None:
    """Raise if a file of the stage is missing: only the stage references it, so orphan removal may have deleted it."""
    table_paths = {file.path for file in files} | {delete.path for file in files for delete in file.deletes}
    paths = sorted(table_paths | {segment.path for segment in root.segments})
    existence = map_parallel(lambda path: io.new_input(path).exists(), paths, paths[0] if paths else "")
    for path, exists in zip(paths, existence, strict=True):
        if not exists:
            raise StageDamaged(
                f"{name}: a file of the rebuild is missing; the mirror is unchanged. Orphan removal deletes files that "
                "are younger than the rebuild: raise its minimum age, then request the rebuild again (or "
                f"`icemirror resume` if it started by policy): {path}"
            )


def _remove_stage(stage: Stage, mirror_table: Table, new_root_path: str) -> None:
    """Delete the files that only the stage needed. A failure is logged: the rebuild is finished."""
    try:
        discard(mirror_table.io, superseded_stage_files(mirror_table.io, stage, new_root_path))
    except Exception as error:
        log.warning("rebuild files not deleted", reason=f"{type(error).__name__}: {error}")
    crash_point("stage-removed")
