"""Makes an existing Iceberg table the mirror: checks it, indexes all of its rows, and commits index and cursor.

The table must already hold all events of the changelog up to the cursor. A row gets the order of the newest merged
event of its key; a row without an event gets the greatest order, so that no late event overwrites it. Without a
cursor every row has the lowest order, and every event of the changelog applies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pyiceberg.io import FileIO

from icemirror.errors import Invalid
from icemirror.processes.crash_points import crash_point
from icemirror.settings import TableSettings
from icemirror.telemetry.logs import get_log
from spark_job.changelog.event_batch import EventBatch, sort_by_position
from spark_job.changelog.read_events import newest_order
from spark_job.columns.distinct import distinct
from spark_job.columns.field_map import dump_field_map
from spark_job.commands.adopt.adoption_candidate import AdoptionCandidate, examine_candidate
from spark_job.commit.commit_snapshot import CommitCrashPoints, commit_snapshot
from spark_job.commit.row_delta import RowDelta
from spark_job.engine.engine import run_inspection
from spark_job.iceberg.live_files import LiveFile
from spark_job.iceberg.property_names import PROPERTY_FIELD_MAP, PROPERTY_SOURCE, PROPERTY_SOURCE_SCHEMA
from spark_job.index.location import index_location
from spark_job.index.root import Root
from spark_job.index.segment import SegmentInfo
from spark_job.maintenance.index_foreign_writes import IndexedShard, to_indexed_file
from spark_job.maintenance.rebuild_segment_work import (
    GREATEST_KEY,
    RebuildOperation,
    RebuildSegmentWork,
    SegmentDataFile,
    sort_by_key,
)
from spark_job.merge.locate import SearchableIndex
from spark_job.pipeline import Pipeline
from spark_job.plan.schema_evolution import initial_merged_schema
from spark_job.storage.discard import discard_unless_committed
from spark_job.write.read_deletes import read_deleted_positions

log = get_log(__name__)

_CRASH_POINTS = CommitCrashPoints("adopt-root-written", "adopt-commit", "adopted")


@dataclass(frozen=True)
class AdoptWork(RebuildSegmentWork):
    """Indexes all rows of a table, each key once; sent to the tasks. Without `writes_index` it only checks the keys."""

    name: str = ""
    writes_index: bool = True

    def run_shard(self, read: Callable[[], EventBatch]) -> IndexedShard:
        """Return the index segment of a key range, or nothing if only keys are checked."""
        if self.writes_index:
            return super().run_shard(read)
        rows = sort_by_position(read())
        self.require_unique_keys(sort_by_key(rows.take(rows.operation == RebuildOperation.LIVE_ROW)))
        return IndexedShard(None, {})

    def require_unique_keys(self, rows: EventBatch) -> None:
        """Raise `Invalid` if two of these rows, sorted by key, have one key."""
        duplicates = np.flatnonzero(rows.keys.same_as_next())
        if len(duplicates):
            first_row, second_row = (self.describe_row(rows, int(duplicates[0]) + step) for step in (0, 1))
            raise Invalid(
                f"{self.name}: {len(duplicates):,} rows have the key of another row, such as {first_row} and "
                f"{second_row}. A mirror has one row for each key: delete the others first."
            )


@dataclass(frozen=True)
class Adopted:
    """What was or would be adopted; `snapshot_id` and `index_bytes` are None if nothing was written."""

    candidate: AdoptionCandidate
    snapshot_id: int | None
    index_bytes: int | None


def adopt_table(pipeline: Pipeline, table: TableSettings, merged_up_to: str, *, dry_run: bool) -> Adopted:
    """Make the table the mirror in one commit on its head; return what was adopted.

    `merged_up_to`: a snapshot id of the changelog, `head` or `none`.
    """
    candidate = examine_candidate(pipeline.catalogs, table, merged_up_to)
    work = _plan_work(pipeline, candidate, table.name, writes_index=not dry_run)
    shards = run_inspection(pipeline.engine, work) if work.files else []
    if dry_run:
        return Adopted(candidate, None, None)
    crash_point("adopt-indexed")
    return _commit_index(
        pipeline, table, candidate, work, [shard.segment for shard in shards if shard.segment]
    )


def _plan_work(
    pipeline: Pipeline, candidate: AdoptionCandidate, name: str, *, writes_index: bool
) -> AdoptWork:
    io, shape = candidate.iceberg_table.io, candidate.shape
    return AdoptWork(
        changelog_io=candidate.changelog.io,
        history=candidate.history,
        io=io,
        data_files=_list_covered_files(io, candidate.live),
        shape=shape,
        key_ids=tuple(candidate.field_map[key_id] for key_id in shape.key_ids),
        older_index=SearchableIndex(io),
        default_order=newest_order(candidate.changelog.io, candidate.history, shape),
        first_key=0,
        last_key=GREATEST_KEY,
        location=index_location(candidate.iceberg_table.metadata, pipeline.settings.index_location),
        rebuilds_whole_index=True,
        name=name,
        writes_index=writes_index,
    )


def _list_covered_files(io: FileIO, live_files: Mapping[str, LiveFile]) -> tuple[SegmentDataFile, ...]:
    deleted = read_deleted_positions(
        io, {path: file for path, file in live_files.items() if file.deleted_rows}
    )
    no_positions = np.empty(0, dtype=np.int64)
    return tuple(
        SegmentDataFile(
            path, ordinal, file.rows, distinct(deleted.get(path, no_positions)), read_all_rows=True
        )
        for ordinal, (path, file) in enumerate(live_files.items())
    )


def _commit_index(
    pipeline: Pipeline,
    table_settings: TableSettings,
    candidate: AdoptionCandidate,
    work: AdoptWork,
    segments: Sequence[SegmentInfo],
) -> Adopted:
    iceberg_table = candidate.iceberg_table
    io, snapshot_id = iceberg_table.io, iceberg_table.metadata.new_snapshot_id()
    with discard_unless_committed(io, [segment.path for segment in segments]):
        root = _build_root(candidate, segments, snapshot_id, work)
        delta = RowDelta(
            table=iceberg_table,
            head=iceberg_table.current_snapshot(),
            snapshot_id=snapshot_id,
            data_files=(),
            delete_files=(),
            summary={},
            properties={
                PROPERTY_FIELD_MAP: dump_field_map(candidate.field_map),
                PROPERTY_SOURCE_SCHEMA: initial_merged_schema(
                    table_settings,
                    candidate.changelog,
                    candidate.schema or iceberg_table.schema(),
                    candidate.metadata_columns,
                ),
                PROPERTY_SOURCE: f"{table_settings.changelog_id} {candidate.changelog.metadata.table_uuid}",
            },
            schema=candidate.schema,
        )
        _, root_bytes = commit_snapshot(
            delta, root, candidate.cursor, pipeline.run_id, work.location, crash_points=_CRASH_POINTS
        )
    index_bytes = root_bytes + root.bytes
    log.info("table adopted", rows=root.live_rows, data_files=len(root.files), index_bytes=index_bytes)
    return Adopted(candidate, snapshot_id, index_bytes)


def _build_root(
    candidate: AdoptionCandidate, segments: Sequence[SegmentInfo], snapshot_id: int, work: AdoptWork
) -> Root:
    now_ms = int(time.time() * 1000)
    root = Root(
        snapshot_id=snapshot_id,
        epoch=1,
        segments=tuple(segment.with_sorted_run(1, now_ms) for segment in segments),
        files=tuple(to_indexed_file(file) for file in candidate.live.values()),
        next_sorted_run=2,
        newest_expired_tombstone_order=None,
    )
    indexed_rows = sum(segment.entries - segment.tombstones for segment in segments)
    if indexed_rows != root.live_rows:
        raise Invalid(
            f"{work.name}: the table counts {root.live_rows} rows, but its files hold {indexed_rows}; nothing was "
            "committed"
        )
    return root
