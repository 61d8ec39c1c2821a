"""Commit an index root together with the table files it describes, in one snapshot."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata

from icemirror.errors import REBUILD_ADVICE, Corrupt
from icemirror.processes.crash_points import crash_point
from icemirror.tables.cursor import Cursor
from spark_job.commit.expire.expiry import choose_expired, delete_expired_files
from spark_job.commit.row_delta import RowDelta
from spark_job.iceberg.cursor_property import commit_properties
from spark_job.iceberg.live_files import LiveDelete, LiveFile
from spark_job.iceberg.mirror import Mirror, cache_root
from spark_job.index.location import root_path
from spark_job.index.root import Root, write_root
from spark_job.plan.schema_evolution import SchemaEvolution
from spark_job.storage.discard import discard_unless_committed
from spark_job.write.position_deletes import Positions


@dataclass(frozen=True)
class FileChanges:
    """The files that a snapshot adds to the table and removes from it.

    `replaced_deletes` leave the table because `delete_files` replace them or their data files are removed.
    `only_moves_rows`: rows only move from removed files to added files.
    """

    data_files: Sequence[DataFile] = ()
    delete_files: Sequence[DataFile] = ()
    replaced_deletes: Sequence[LiveDelete] = ()
    removed_data_files: Sequence[LiveFile] = ()
    only_moves_rows: bool = False


class CommitCrashPoints(NamedTuple):
    """Names of the crash points of one kind of commit, in the order in which it reaches them."""

    root_written: str
    commit: str
    committed: str


_CRASH_POINTS = CommitCrashPoints("root-written", "commit", "committed")


@dataclass(frozen=True)
class CommitStatistics:
    """The size of a committed root, and the seconds of each step."""

    root_bytes: int
    seconds: Mapping[str, float]


def check_live_row_counts(
    root: Root,
    live: Mapping[str, LiveFile],
    added: Iterable[DataFile],
    removed_positions: Mapping[str, Positions],
) -> None:
    """Raise `Corrupt` unless the index counts as many live rows in each data file as the table has after the commit."""
    expected = {path: file.live_rows - len(removed_positions.get(path, ())) for path, file in live.items()}
    expected.update((file.file_path, file.record_count) for file in added)
    indexed = {file.path: file.live_rows for file in root.files if not file.removed}
    for path in expected.keys() | indexed.keys():
        if expected.get(path) != indexed.get(path):
            raise Corrupt(
                f"the table has {expected.get(path)} live rows in a data file, but the key index counts "
                f"{indexed.get(path)}; nothing was committed. To continue, {REBUILD_ADVICE}. The data file: {path}"
            )


def commit_and_expire(
    mirror: Mirror,
    root: Root,
    files: FileChanges,
    cursor: Cursor,
    run_id: str,
    index_location: str,
    labels: Mapping[str, str],
    evolution: SchemaEvolution | None = None,
) -> CommitStatistics:
    """Write the root and commit it with the file changes on the mirror's head. Due snapshots expire in the same commit.

    `labels` are added to the snapshot's summary. `evolution` changes the mirror's columns in the same commit.
    """
    table = mirror.table
    began = time.perf_counter()
    expiry = choose_expired(table)
    delta = RowDelta(
        table=table,
        head=mirror.head,
        snapshot_id=root.snapshot_id,
        data_files=files.data_files,
        delete_files=files.delete_files,
        summary=labels,
        properties=evolution.properties if evolution else {},
        replaced_deletes=files.replaced_deletes,
        removed_data_files=files.removed_data_files,
        expired_snapshot_ids=expiry.snapshot_ids,
        schema=evolution.schema if evolution else None,
        only_moves_rows=files.only_moves_rows,
    )
    new_metadata, root_bytes = commit_snapshot(delta, root, cursor, run_id, index_location)
    committed_at = time.perf_counter()
    delete_expired_files(table, expiry, new_metadata, index_location)
    seconds = {"commit": committed_at - began, "expire": time.perf_counter() - committed_at}
    return CommitStatistics(root_bytes, seconds)


def commit_snapshot(
    delta: RowDelta,
    root: Root,
    cursor: Cursor,
    run_id: str,
    index_location: str,
    *,
    crash_points: CommitCrashPoints = _CRASH_POINTS,
    empties_table: bool = False,
) -> tuple[TableMetadata, int]:
    """Write the root, and commit the delta with root and cursor. Return the new metadata and the root's size.

    On a conflict the root is deleted; it is kept while the outcome is unknown.
    """
    table, path = delta.table, root_path(index_location, root)
    with discard_unless_committed(table.io, [path]) as paths:
        root_bytes = write_root(table.io, path, root)
        crash_point(crash_points.root_written)
        snapshot_properties = commit_properties(
            table,
            root,
            path,
            cursor,
            run_id,
            changes_files=delta.adds_files,
            empties_table=empties_table,
        )
        delta = replace(
            delta,
            summary={**snapshot_properties.summary, **delta.summary},
            properties={**delta.properties, **snapshot_properties.properties},
            metadata_paths=paths,
        )
        crash_point(crash_points.commit)
        new_metadata = delta.commit()
        crash_point(crash_points.committed)
    cache_root(path, root)
    return new_metadata, root_bytes
