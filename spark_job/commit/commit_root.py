"""Commit an index root together with the table files it describes, in one snapshot."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata

from icemirror.errors import REBUILD, Corrupt
from icemirror.processes.crash_points import reach
from icemirror.tables.cursor import Cursor
from spark_job.commit.expiry import choose_expired, delete_expired_files
from spark_job.commit.row_delta import RowDelta
from spark_job.iceberg.live_files import LiveDelete, LiveFile
from spark_job.iceberg.mirror import Mirror, commit_properties, remember_root
from spark_job.index.root import Root, root_path, write_root
from spark_job.plan.schema_evolution import SchemaEvolution
from spark_job.storage.discard import discard_unless_committed
from spark_job.write.position_deletes import Positions


@dataclass(frozen=True)
class FileChanges:
    """The files that a snapshot adds to the table and removes from it.

    `only_moves_rows`: rows only move from removed files to added files.
    """

    data_files: Sequence[DataFile] = ()
    delete_files: Sequence[DataFile] = ()
    replaced: Sequence[LiveDelete] = ()
    removed: Sequence[LiveFile] = ()
    only_moves_rows: bool = False


class CommitCrashPoints(NamedTuple):
    """Names of the crash points of one kind of commit, in the order in which it reaches them."""

    root_written: str
    commit: str
    committed: str


_CRASH_POINTS = CommitCrashPoints("root-written", "commit", "committed")


@dataclass(frozen=True)
class CommittedRoot:
    """A committed snapshot: the size of its root, and the seconds of each step."""

    root_bytes: int
    seconds: Mapping[str, float]


def check_live_row_counts(
    root: Root,
    live: Mapping[str, LiveFile],
    added: Iterable[DataFile],
    removed: Mapping[str, Positions],
) -> None:
    """Check that the index counts as many live rows in each data file as the table has after this commit."""
    expected = {path: file.rows - file.deleted - len(removed.get(path, ())) for path, file in live.items()}
    expected.update((file.file_path, file.record_count) for file in added)
    indexed = {file.path: file.live for file in root.files if not file.removed}
    for path in expected.keys() | indexed.keys():
        if expected.get(path) != indexed.get(path):
            raise Corrupt(
                f"the table has {expected.get(path)} live rows in a data file, but the key index counts "
                f"{indexed.get(path)}; nothing was committed. To continue, {REBUILD}. The data file: {path}"
            )


def commit_root(
    mirror: Mirror,
    root: Root,
    files: FileChanges,
    cursor: Cursor,
    run_id: str,
    index_location: str,
    labels: Mapping[str, str],
    evolution: SchemaEvolution | None = None,
) -> CommittedRoot:
    """Write the root and commit it on the mirror's head, together with due expiry.

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
        replaced=files.replaced,
        removed=files.removed,
        expired=expiry.snapshot_ids,
        schema=evolution.schema if evolution else None,
        only_moves_rows=files.only_moves_rows,
    )
    after, root_bytes = commit_with_root(delta, root, cursor, run_id, index_location)
    committed = time.perf_counter()
    delete_expired_files(table, expiry, after, index_location)
    seconds = {"commit": committed - began, "expire": time.perf_counter() - committed}
    return CommittedRoot(root_bytes, seconds)


def commit_with_root(
    delta: RowDelta,
    root: Root,
    cursor: Cursor,
    run_id: str,
    index_location: str,
    *,
    crash_points: CommitCrashPoints = _CRASH_POINTS,
    empties_table: bool = False,
) -> tuple[TableMetadata, int]:
    """Write the root, commit the delta with cursor and root in it; return the table after it and the root's bytes.

    On a conflict the root is deleted; it is kept while the outcome is unknown.
    """
    table, path = delta.table, root_path(index_location, root)
    with discard_unless_committed(table.io, [path]) as paths:
        root_bytes = write_root(table.io, path, root)
        reach(crash_points.root_written)
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
            written=paths,
        )
        reach(crash_points.commit)
        after = delta.commit()
        reach(crash_points.committed)
    remember_root(path, root)
    return after, root_bytes
