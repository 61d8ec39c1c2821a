"""Expire snapshots within the commit of a merge: chosen before it, files deleted after it.

An error in either does not fail the merge.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from icemirror.processes.crash_points import reach
from icemirror.telemetry.logs import get_log
from spark_job.commit.owned_locations import OwnedLocations
from spark_job.commit.retention import due_snapshots, gc_enabled, is_worth_expiring, main_head, max_due
from spark_job.commit.unreferenced_files import UnreferencedFiles, find_unreferenced
from spark_job.storage.discard import Discarded, discard

_DELETE_METADATA = "write.metadata.delete-after-commit.enabled"

log = get_log(__name__)


@dataclass(frozen=True)
class Expiry:
    """The snapshots that a commit removes, and the table metadata they were chosen from."""

    before: TableMetadata
    snapshots: tuple[Snapshot, ...] = ()

    @property
    def snapshot_ids(self) -> tuple[int, ...]:
        """Return their ids, oldest first."""
        return tuple(snapshot.snapshot_id for snapshot in self.snapshots)


def choose_expired(table: Table) -> Expiry:
    """Choose the snapshots that the next commit on a mirror removes; usually none.

    They are chosen from fresh metadata: since the merge began, a user may have tagged one of them.
    """
    nothing = Expiry(table.metadata)
    with _log_errors("expiry skipped"):
        if not _due_snapshots(table.metadata):
            return nothing
        fresh = table.catalog.load_table(table.name()).metadata
        if main_head(fresh) == main_head(table.metadata):
            return Expiry(fresh, _due_snapshots(fresh))
    return nothing


def _due_snapshots(metadata: TableMetadata) -> tuple[Snapshot, ...]:
    now_ms = int(time.time() * 1000)
    if not gc_enabled(metadata) or not is_worth_expiring(
        metadata, max_due(metadata, now_ms, added_snapshots=1)
    ):
        return ()
    due = due_snapshots(metadata, now_ms, added_snapshots=1)
    return due if is_worth_expiring(metadata, len(due)) else ()


def delete_expired_files(table: Table, expiry: Expiry, after: TableMetadata, index_path: str) -> Discarded:
    """After the commit succeeded, delete files that only expired snapshots reached, and old metadata files."""
    discarded = Discarded()
    with _log_errors("expired files not deleted"):
        files = find_expired_files(table, expiry, after, index_path)
        discarded = delete_unreferenced_files(table, files)
        if expiry.snapshots or discarded.not_deleted:
            log.info(
                "snapshots expired",
                snapshots=len(expiry.snapshots),
                files_deleted=discarded.deleted,
                files_left=discarded.not_deleted,
                reason=discarded.reason,
            )
    return discarded


def find_expired_files(
    table: Table, expiry: Expiry, after: TableMetadata, index_path: str
) -> UnreferencedFiles:
    """Return the files that a commit left unreferenced: by expired snapshots, and old metadata files."""
    owned = OwnedLocations.of(expiry.before, index_path)
    free = find_unreferenced(table.io, expiry.before, after, expiry.snapshots, owned)
    old = frozenset(filter(owned.has_file, _old_metadata(expiry.before, after)))
    return UnreferencedFiles(free.content, free.metadata | old, free.index)


def delete_unreferenced_files(table: Table, files: UnreferencedFiles) -> Discarded:
    """Delete the files; those that reference others last."""
    if not len(files):
        return Discarded()
    reach("delete-expired")
    first = discard(table.io, files.content | files.index)
    reach("expired-half-deleted")
    second = discard(table.io, files.metadata)
    reach("expired-deleted")
    return Discarded(
        first.deleted + second.deleted, first.not_deleted + second.not_deleted, first.reason or second.reason
    )


def _old_metadata(before: TableMetadata, after: TableMetadata) -> set[str]:
    """Return metadata files that are no longer in the metadata log.

    PyIceberg's `Table` deletes them, `commit_table` does not.
    """
    if after.properties.get(_DELETE_METADATA, "false").lower() != "true":
        return set()
    return {entry.metadata_file for entry in before.metadata_log} - {
        entry.metadata_file for entry in after.metadata_log
    }


@contextmanager
def _log_errors(event: str) -> Iterator[None]:
    """Log an error instead of failing the merge."""
    try:
        yield
    except Exception as error:
        log.warning(event, reason=f"{type(error).__name__}: {error}")
