"""Expire snapshots within a commit: chosen before it, files deleted after it.

An error in either is logged and does not fail the merge that commits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from icemirror.processes.crash_points import crash_point
from icemirror.telemetry.logs import get_log
from spark_job.commit.expire.owned_locations import OwnedLocations
from spark_job.commit.expire.retention import (
    count_due_at_most,
    due_snapshots,
    gc_enabled,
    is_worth_expiring,
    main_head,
)
from spark_job.commit.expire.unreferenced_files import UnreferencedFiles, find_unreferenced
from spark_job.storage.discard import Discarded, discard

_DELETE_METADATA = "write.metadata.delete-after-commit.enabled"

log = get_log(__name__)


@dataclass(frozen=True)
class Expiry:
    """The snapshots that a commit removes, and the table metadata they were chosen from."""

    metadata: TableMetadata
    snapshots: tuple[Snapshot, ...] = ()

    @property
    def snapshot_ids(self) -> tuple[int, ...]:
        """The ids of the snapshots, oldest first."""
        return tuple(snapshot.snapshot_id for snapshot in self.snapshots)


def choose_expired(mirror_table: Table) -> Expiry:
    """Choose the snapshots that the next commit on a mirror removes; usually none.

    They are chosen from fresh metadata: since the merge began, a user may have tagged one of them.
    """
    no_expiry = Expiry(mirror_table.metadata)
    with _log_errors("expiry skipped"):
        if not _choose_due(mirror_table.metadata):
            return no_expiry
        fresh = mirror_table.catalog.load_table(mirror_table.name()).metadata
        if main_head(fresh) == main_head(mirror_table.metadata):
            return Expiry(fresh, _choose_due(fresh))
    return no_expiry


def _choose_due(metadata: TableMetadata) -> tuple[Snapshot, ...]:
    """Return the due snapshots; none if there are too few to be worth a removal."""
    now_ms = int(time.time() * 1000)
    if not gc_enabled(metadata) or not is_worth_expiring(
        metadata, count_due_at_most(metadata, now_ms, added_snapshots=1)
    ):
        return ()
    due = due_snapshots(metadata, now_ms, added_snapshots=1)
    return due if is_worth_expiring(metadata, len(due)) else ()


def delete_expired_files(
    mirror_table: Table, expiry: Expiry, new_metadata: TableMetadata, index_path: str
) -> Discarded:
    """Delete files that only expired snapshots reference, and old metadata files. The commit must have succeeded."""
    discarded = Discarded()
    with _log_errors("expired files not deleted"):
        files = find_expired_files(mirror_table, expiry, new_metadata, index_path)
        discarded = delete_unreferenced_files(mirror_table, files)
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
    mirror_table: Table, expiry: Expiry, new_metadata: TableMetadata, index_path: str
) -> UnreferencedFiles:
    """Return the files that a commit left unreferenced: by expired snapshots, and old metadata files."""
    owned = OwnedLocations.from_metadata(expiry.metadata, index_path)
    unreferenced = find_unreferenced(mirror_table.io, expiry.metadata, new_metadata, expiry.snapshots, owned)
    old_metadata = frozenset(filter(owned.has_file, _old_metadata_files(expiry.metadata, new_metadata)))
    return replace(unreferenced, metadata=unreferenced.metadata | old_metadata)


def delete_unreferenced_files(mirror_table: Table, files: UnreferencedFiles) -> Discarded:
    """Delete the files, those that reference others last. Return how many."""
    if not len(files):
        return Discarded()
    crash_point("delete-expired")
    content = discard(mirror_table.io, files.content | files.index)
    crash_point("expired-half-deleted")
    metadata = discard(mirror_table.io, files.metadata)
    crash_point("expired-deleted")
    return Discarded(
        content.deleted + metadata.deleted,
        content.not_deleted + metadata.not_deleted,
        content.reason or metadata.reason,
    )


def _old_metadata_files(old_metadata: TableMetadata, new_metadata: TableMetadata) -> set[str]:
    """Return metadata files that are no longer in the metadata log.

    PyIceberg's `Table` deletes them, `commit_table` does not.
    """
    if new_metadata.properties.get(_DELETE_METADATA, "false").lower() != "true":
        return set()
    return {entry.metadata_file for entry in old_metadata.metadata_log} - {
        entry.metadata_file for entry in new_metadata.metadata_log
    }


@contextmanager
def _log_errors(event: str) -> Iterator[None]:
    """Log an error of the body instead of raising it."""
    try:
        yield
    except Exception as error:
        log.warning(event, reason=f"{type(error).__name__}: {error}")
