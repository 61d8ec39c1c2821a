"""`maintain expire`: removes all snapshots that are due, in separate commits."""

from __future__ import annotations

import time

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate

from icemirror.errors import Conflict, Invalid
from icemirror.processes.crash_points import reach
from icemirror.result import ExpireResult
from spark_job.commit.expiry import Expiry, delete_unreferenced_files, find_expired_files
from spark_job.commit.retention import due_snapshots, gc_enabled, main_head
from spark_job.commit.retry import MAX_ATTEMPTS, ConflictRetries
from spark_job.iceberg.mirror import SOURCE
from spark_job.iceberg.write_properties import file_locations
from spark_job.index.root import index_location
from spark_job.storage.classify_errors import error_text

_MAX_CLOCK_SKEW_SECONDS = 60


def expire(
    table: Table, name: str, *, configured_location: str | None = None, dry_run: bool = False
) -> ExpireResult:
    """Remove due snapshots and the files that only they reference; with `dry_run` only count them."""
    require_own_files(table.metadata, name)
    now_ms = int(time.time() * 1000)
    table_index_location = index_location(table.metadata, configured_location)
    if dry_run:
        return _count(table, name, now_ms, table_index_location)
    _require_clock(table.metadata, name, now_ms)
    # Refuses a table whose metadata files would go to an unsupported location.
    file_locations(table.metadata.location, table.metadata.properties)
    snapshots = deleted = left = 0

    while True:
        expiry, after = _expire_due(table, name, now_ms)
        if not expiry.snapshots:
            break
        snapshots += len(expiry.snapshots)
        discarded = delete_unreferenced_files(
            table, find_expired_files(table, expiry, after, table_index_location)
        )
        deleted, left = deleted + discarded.deleted, left + discarded.not_deleted
    return ExpireResult(
        table=name,
        dry_run=False,
        snapshots=snapshots,
        retained=len(after.snapshots),
        files=deleted,
        left=left,
    )


def _expire_due(table: Table, name: str, now_ms: int) -> tuple[Expiry, TableMetadata]:
    """Commit the expiry of what is due; return it, and the metadata after it."""
    retries = ConflictRetries(
        exhausted=f"{name}: another writer committed to the mirror during each of {MAX_ATTEMPTS} attempts to "
        "expire snapshots. Try again later."
    )
    while True:
        current = table.catalog.load_table(table.name())
        with retries:
            expiry = Expiry(current.metadata, due_snapshots(current.metadata, now_ms))
            return expiry, _commit(current, expiry) if expiry.snapshots else current.metadata


def require_own_files(metadata: TableMetadata, name: str) -> None:
    """Refuse a table that is no mirror, or whose files other tables may share."""
    if SOURCE not in metadata.properties:
        raise Invalid(f"{name}: is not a mirror, so nothing was deleted.")
    if not gc_enabled(metadata):
        raise Invalid(
            f"{name}: its property gc.enabled is false, so its files may belong to other tables too. "
            "Nothing was deleted; set it to true if they do not."
        )


def _require_clock(metadata: TableMetadata, name: str, now_ms: int) -> None:
    """Refuse a clock behind the table: Iceberg Java reads no table whose update time goes back."""
    ahead = (metadata.last_updated_ms - now_ms) // 1000
    if ahead > _MAX_CLOCK_SKEW_SECONDS:
        raise Invalid(
            f"{name}: the table's last update is {ahead} seconds ahead of this machine's clock. Nothing was removed. "
            "Correct the wrong clock. Merges still expire snapshots with their own commits."
        )


def _commit(table: Table, expiry: Expiry) -> TableMetadata:
    """Commit only on the head that was read: a running merge may build on it."""
    fence = AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": main_head(expiry.before)})
    updates = tuple(
        RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [snapshot_id]})
        for snapshot_id in expiry.snapshot_ids
    )
    reach("expire")
    fences = AssertTableUUID(uuid=expiry.before.table_uuid), fence
    try:
        after = table.catalog.commit_table(table, fences, updates).metadata
    except CommitFailedException as error:
        raise Conflict(f"the mirror moved while its snapshots were expired: {error_text(error)}") from error
    reach("expired")
    return after


def _count(table: Table, name: str, now_ms: int, table_index_location: str) -> ExpireResult:
    """Count what each commit would remove, without committing."""
    metadata, snapshots, files = table.metadata, 0, 0
    while due := due_snapshots(metadata, now_ms):
        removed = {snapshot.snapshot_id for snapshot in due}
        after = metadata.model_copy(
            update={
                "snapshots": [
                    snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in removed
                ]
            }
        )
        files += len(find_expired_files(table, Expiry(metadata, due), after, table_index_location))
        metadata, snapshots = after, snapshots + len(due)
    return ExpireResult(
        table=name, dry_run=True, snapshots=snapshots, retained=len(metadata.snapshots), files=files, left=0
    )
