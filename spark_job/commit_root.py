"""Commits a root: what it says of the table's files becomes true, and they become visible, in one snapshot."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile

from icemirror.crash import reach
from icemirror.cursor import Cursor
from icemirror.errors import REBUILD, Corrupt
from spark_job.files.written import written_for_commit
from spark_job.iceberg.mirror import Mirror, remember_root, stamp
from spark_job.iceberg.row_delta import RowDelta
from spark_job.iceberg.view import LiveDelete, LiveFile
from spark_job.key_index.root import Root, root_path, write_root
from spark_job.maintenance.expiry import choose_expired, clean_up
from spark_job.schema_changes.evolution import Evolution
from spark_job.write.position_deletes import Positions


@dataclass(frozen=True)
class FileChanges:
    """What a snapshot does to the table's files: those that come, and those that go.

    `same_rows`: rows only move from files that go to files that come.
    """

    data_files: Sequence[DataFile] = ()
    delete_files: Sequence[DataFile] = ()
    replaced: Sequence[LiveDelete] = ()
    removed: Sequence[LiveFile] = ()
    same_rows: bool = False


@dataclass(frozen=True)
class Committed:
    """A snapshot that is there: the size of its root, and how long it took."""

    root_bytes: int
    seconds: Mapping[str, float]


def check_counts(
    root: Root,
    live: Mapping[str, LiveFile],
    added: Iterable[DataFile],
    doomed: Mapping[str, Positions],
) -> None:
    """Entries of each data file in the index = its rows − its deleted rows in the table, this commit included."""
    expected = {path: file.rows - file.deleted - len(doomed.get(path, ())) for path, file in live.items()}
    expected.update((file.file_path, file.record_count) for file in added)
    counted = {file.path: file.live for file in root.files if not file.gone}
    for path in expected.keys() | counted.keys():
        if expected.get(path) != counted.get(path):
            raise Corrupt(
                f"{path}: the table has {expected.get(path)} live rows there, the key index {counted.get(path)}; "
                f"nothing was committed. To go on, {REBUILD}."
            )


def commit_root(
    mirror: Mirror,
    root: Root,
    files: FileChanges,
    cursor: Cursor,
    run_id: str,
    index_location: str,
    labels: Mapping[str, str],
    evolution: Evolution | None = None,
) -> Committed:
    """Writes the root and commits it on the mirror's head. `labels` are added to the snapshot's summary.

    `evolution`: what happens to the mirror's columns in the same commit.
    On a conflict the root is removed again; while the outcome is unknown it is not.
    """
    table, io = mirror.table, mirror.table.io
    path = root_path(index_location, root)
    began = time.perf_counter()
    with written_for_commit(io, [path]) as written:
        root_bytes = write_root(io, path, root)
        reach("root-written")
        expiry = choose_expired(table)
        changes_files = bool(files.data_files or files.delete_files)
        stamped = stamp(table, root, path, cursor, run_id, changes_files=changes_files)
        delta = RowDelta(
            table=table,
            head=mirror.head,
            snapshot_id=root.snapshot_id,
            data_files=files.data_files,
            delete_files=files.delete_files,
            summary={**stamped.summary, **labels},
            properties={**(evolution.properties if evolution else {}), **stamped.properties},
            replaced=files.replaced,
            removed=files.removed,
            expired=expiry.snapshot_ids,
            schema=evolution.schema if evolution else None,
            same_rows=files.same_rows,
            written=written,
        )
        reach("commit")
        after = delta.commit()
        reach("committed")
    committed = time.perf_counter()
    remember_root(path, root)
    clean_up(table, expiry, after, index_location)
    seconds = {"commit": committed - began, "expire": time.perf_counter() - committed}
    return Committed(root_bytes, seconds)
