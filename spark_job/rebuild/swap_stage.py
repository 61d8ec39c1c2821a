"""Publishes a stage: one snapshot on the mirror replaces all of its files, its index and its cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from icemirror.errors import Corrupt, Invalid
from icemirror.processes.crash_points import reach
from icemirror.result import Position
from icemirror.settings import TableSettings
from icemirror.tables.cursor import Cursor
from icemirror.telemetry.logs import get_log
from spark_job.commit.commit_root import CommitCrashPoints, commit_with_root
from spark_job.commit.swap import Swap
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.manifests import load_manifests
from spark_job.iceberg.merged_schema import SOURCE_SCHEMA, assign_schema_id, read_merged_schema
from spark_job.iceberg.mirror import (
    FORMER_SOURCES,
    REBUILDS,
    REPLAY,
    SOURCE,
    last_epoch,
)
from spark_job.iceberg.stage import SCHEMA_PROPERTIES, Stage, completed_rebuilds, superseded_stage_files
from spark_job.index.root import Root, index_location, root_path
from spark_job.plan.table_plan import TablePlan
from spark_job.rebuild.executor import Executor
from spark_job.storage.discard import discard
from spark_job.storage.parallel import map_parallel

_REBUILDS_KEPT = 16
_CRASH_POINTS = CommitCrashPoints("swap-root-written", "swap", "swapped")

log = get_log(__name__)


class StageDamaged(Corrupt):
    """The stage cannot be swapped in, and retrying does not help: it has to be built again."""


def swap_stage(
    executor: Executor,
    table: TableSettings,
    mirror: Table,
    stage: Stage,
    staged: TablePlan,
    followed: Sequence[str],
) -> Position:
    """Replace the mirror's content by the stage, fenced on the head that the stage was compared with."""
    built, io = staged.mirror, mirror.io
    if built is None or (built.head is not None and (built.root is None or built.cursor is None)):
        raise Invalid(f"{table.name}: the stage has no content to replace the mirror with")
    cursor = built.cursor or Cursor(sources=())  # of a changelog without a commit
    snapshot_id = mirror.metadata.new_snapshot_id()
    location = index_location(mirror.metadata, executor.settings.index_location)
    epoch = last_epoch(mirror.metadata) + 1
    empty = Root(snapshot_id=snapshot_id, epoch=epoch, segments=(), files=())
    root = (built.root or empty).model_copy(update={"snapshot_id": snapshot_id, "epoch": epoch})
    new_schema = schema_after_swap(mirror.metadata, built.table.metadata)
    live = list(live_files(io, built.head).values())
    _require_files(io, table.name, live, root)
    swap = Swap(
        table=mirror,
        head=mirror.current_snapshot(),
        snapshot_id=snapshot_id,
        data_files=(),
        delete_files=(),
        summary={REPLAY: stage.request},
        schema=new_schema.schema,
        properties={
            **new_schema.properties,
            **_source_properties(mirror, staged, followed),
            REBUILDS: " ".join([*completed_rebuilds(mirror), stage.request][-_REBUILDS_KEPT:]),
        },
        staged=load_manifests(io, built.head) if built.head else (),
    )
    commit_with_root(
        swap, root, cursor, executor.run_id, location, crash_points=_CRASH_POINTS, empties_table=not live
    )
    log.info("mirror rebuilt", replay=stage.request, live_rows=root.live_rows, events=stage.events)
    _remove_stage(stage, mirror, root_path(location, root))
    return Position(cursor=built.cursor, live_rows=root.live_rows, index_bytes=root.bytes)


@dataclass(frozen=True)
class SwappedSchema:
    """The schema and properties to set; `schema` is None if it is current already."""

    schema: Schema | None
    properties: Mapping[str, str]


def schema_after_swap(mirror: TableMetadata, stage: TableMetadata) -> SwappedSchema:
    """Return what has to change so that the mirror can read the files of the stage."""
    properties = {name: stage.properties[name] for name in SCHEMA_PROPERTIES if name in stage.properties}
    schema = (
        mirror.schema() if stage.schema() == mirror.schema() else assign_schema_id(mirror, stage.schema())
    )
    merged_schema = read_merged_schema(properties)
    if merged_schema is not None:
        properties[SOURCE_SCHEMA] = merged_schema.model_copy(
            update={"mirror_schema": schema.schema_id}
        ).model_dump_json()
    changed = {name: text for name, text in properties.items() if mirror.properties.get(name) != text}
    return SwappedSchema(schema if schema.schema_id != mirror.current_schema_id else None, changed)


def _source_properties(mirror: Table, staged: TablePlan, followed: Sequence[str]) -> dict[str, str]:
    """Table properties that name the changelog which the mirror follows from now on, and those before it."""
    properties, now = mirror.metadata.properties, str(staged.changelog.metadata.table_uuid)
    former = [*properties.get(FORMER_SOURCES, "").split(), *followed]
    updates = {SOURCE: f"{staged.settings.changelog_id} {now}"}
    if others := [uuid for uuid in dict.fromkeys(former) if uuid not in ("", now)]:
        updates[FORMER_SOURCES] = " ".join(others[-_REBUILDS_KEPT:])
    elif FORMER_SOURCES in properties:
        updates[FORMER_SOURCES] = ""
    return updates


def _require_files(io: FileIO, name: str, live: Sequence[LiveFile], root: Root) -> None:
    """Raise if a file of the stage is missing: only the stage referred to them, so orphan removal may have run."""
    paths = {file.path for file in live} | {delete.path for file in live for delete in file.deletes}
    wanted = sorted(paths | {segment.path for segment in root.segments})
    found = map_parallel(lambda path: io.new_input(path).exists(), wanted, wanted[0] if wanted else "")
    for path, exists in zip(wanted, found, strict=True):
        if not exists:
            raise StageDamaged(
                f"{name}: a file of the rebuild is missing; the mirror is unchanged. Orphan removal deletes files that "
                "are younger than the rebuild: raise its minimum age, then request the rebuild again (or "
                f"`icemirror resume` if it started by policy): {path}"
            )


def _remove_stage(stage: Stage, mirror: Table, path: str) -> None:
    """Remove what only the stage needed; a finished rebuild does not fail because of that."""
    try:
        discard(mirror.io, superseded_stage_files(mirror.io, stage, path))
    except Exception as error:
        log.warning("rebuild files not deleted", reason=f"{type(error).__name__}: {error}")
    reach("stage-removed")
