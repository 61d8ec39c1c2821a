"""Makes an existing Iceberg table the mirror: checks it, indexes all of its rows, and commits index and cursor.

Whatever the changelog tells of up to the cursor must be in the table already. A row then has the order of its key's
newest event up to there; one that the changelog does not know counts as the newest of all, so that no late event
turns it back. Without a cursor every row has the lowest order, and every event of the changelog applies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pyiceberg.io import FileIO

from icemirror.crash import reach
from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from icemirror.telemetry.logs import get_log
from spark_job.adopt.candidate import Candidate, examine
from spark_job.changelog.changes import Changes, in_order
from spark_job.changelog.read_sequences import newest_order
from spark_job.columns.field_map import dump_map
from spark_job.distinct import distinct
from spark_job.files.written import written_for_commit
from spark_job.iceberg.mirror import FIELD_MAP, SOURCE, stamp
from spark_job.iceberg.row_delta import RowDelta
from spark_job.iceberg.view import LiveFile
from spark_job.index_upkeep.catch_up import IndexedShard
from spark_job.index_upkeep.heal import EVERY_KEY, ROW, Covered, HealWork, by_key
from spark_job.index_upkeep.indexed_files import indexed_file
from spark_job.key_index.index_location import index_location
from spark_job.key_index.root import Root, root_path, write_root
from spark_job.key_index.segment import SegmentInfo
from spark_job.locate import Index
from spark_job.pipeline import Pipeline
from spark_job.runtime.little import run_here_or
from spark_job.schema_changes.evolution import first_note
from spark_job.schema_changes.schema_note import SOURCE_SCHEMA
from spark_job.write.vectors import deleted_positions

log = get_log(__name__)


@dataclass(frozen=True)
class AdoptWork(HealWork):
    """Indexes all rows of a table in which no key may be twice; sent to the tasks. `write`: not only a check."""

    name: str = ""
    write: bool = True

    def merge(self, read: Callable[[], Changes]) -> IndexedShard:
        """Indexes a range of keys."""
        if self.write:
            return super().merge(read)
        rows = in_order(read())
        self.refuse_doubles(by_key(rows.take(rows.operation == ROW)))
        return IndexedShard(None, {})

    def refuse_doubles(self, rows: Changes) -> None:
        """Two rows of one key, by key."""
        doubles = np.flatnonzero(rows.keys.same_as_next())
        if len(doubles):
            first = int(doubles[0])
            raise Invalid(
                f"{self.name}: {len(doubles):,} rows have the key of another one, such as {self.place(rows, first)} "
                f"and {self.place(rows, first + 1)}. A mirror has one row for each key: delete the others first."
            )


@dataclass(frozen=True)
class Adopted:
    """What was done, or would be; `snapshot_id` and `index_bytes` are None if nothing was written."""

    candidate: Candidate
    snapshot_id: int | None
    index_bytes: int | None


def adopt_table(pipeline: Pipeline, table: TableSettings, merged_up_to: str, *, dry_run: bool) -> Adopted:
    """Makes the table the mirror in one commit on its head; `merged_up_to`: a snapshot id, `head` or `none`."""
    candidate = examine(pipeline.catalogs, table, merged_up_to)
    work = _work(pipeline, candidate, table.name, write=not dry_run)
    shards = run_here_or(pipeline.engine, work) if work.files else []
    if dry_run:
        return Adopted(candidate, None, None)
    reach("adopt-indexed")
    return _commit(pipeline, table, candidate, work, [one.segment for one in shards if one.segment])


def _work(pipeline: Pipeline, candidate: Candidate, name: str, *, write: bool) -> AdoptWork:
    io, shape = candidate.table.io, candidate.shape
    return AdoptWork(
        changelog_io=candidate.changelog.io,
        history=candidate.history,
        io=io,
        covered=_covered(io, candidate.live),
        shape=shape,
        key_ids=tuple(candidate.field_map[key_id] for key_id in shape.key_ids),
        older=Index(io),
        newest=newest_order(candidate.changelog.io, candidate.history, shape),
        first_key=0,
        last_key=EVERY_KEY,
        location=index_location(candidate.table.metadata, pipeline.settings.index_location),
        everything=True,
        name=name,
        write=write,
    )


def _covered(io: FileIO, live: Mapping[str, LiveFile]) -> tuple[Covered, ...]:
    deleted = deleted_positions(io, {path: file for path, file in live.items() if file.deleted})
    nothing = np.empty(0, dtype=np.int64)
    return tuple(
        Covered(path, at, file.rows, distinct(deleted.get(path, nothing)), whole=True)
        for at, (path, file) in enumerate(live.items())
    )


def _commit(
    pipeline: Pipeline,
    settings: TableSettings,
    candidate: Candidate,
    work: AdoptWork,
    segments: Sequence[SegmentInfo],
) -> Adopted:
    table = candidate.table
    io, snapshot_id = table.io, table.metadata.new_snapshot_id()
    with written_for_commit(io, [segment.path for segment in segments]) as written:
        root = _root(candidate, segments, snapshot_id, work)
        path = root_path(work.location, root)
        written.append(path)
        size = write_root(io, path, root) + root.bytes
        reach("adopt-root-written")
        cursor, run_id = candidate.cursor, pipeline.run_id
        stamped = stamp(table, root, path, cursor, run_id, changes_files=False)
        delta = RowDelta(
            table=table,
            head=table.current_snapshot(),
            snapshot_id=snapshot_id,
            data_files=(),
            delete_files=(),
            summary=stamped.summary,
            properties={
                FIELD_MAP: dump_map(candidate.field_map),
                SOURCE_SCHEMA: first_note(
                    settings, candidate.changelog, candidate.schema or table.schema(), candidate.own
                ),
                SOURCE: f"{settings.changelog_id} {candidate.changelog.metadata.table_uuid}",
                **stamped.properties,
            },
            schema=candidate.schema,
            written=written,
        )
        reach("adopt-commit")
        delta.commit()
        reach("adopted")
    log.info("table adopted", rows=root.live_rows, data_files=len(root.files), index_bytes=size)
    return Adopted(candidate, snapshot_id, size)


def _root(candidate: Candidate, segments: Sequence[SegmentInfo], snapshot_id: int, work: AdoptWork) -> Root:
    now = int(time.time() * 1000)
    root = Root(
        snapshot_id=snapshot_id,
        epoch=1,
        segments=tuple(segment.in_run(1, now) for segment in segments),
        files=tuple(indexed_file(file) for file in candidate.live.values()),
        next_run=2,
        expired=None,
    )
    indexed = sum(segment.entries - segment.tombstones for segment in segments)
    if indexed != root.live_rows:
        raise Invalid(
            f"{work.name}: the table counts {root.live_rows} rows, but its files hold {indexed}; nothing was committed"
        )
    return root
