"""`maintain expire`: removes all snapshots that are due, in separate commits."""

from __future__ import annotations

import time

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate

from icemirror.errors import Conflict, Invalid
from icemirror.processes.crash_points import crash_point
from icemirror.result import ExpireResult
from spark_job.commit.expire.expiry import Expiry, delete_unreferenced_files, find_expired_files
from spark_job.commit.expire.retention import due_snapshots, gc_enabled, main_head
from spark_job.commit.retry import MAX_ATTEMPTS, ConflictRetries
from spark_job.iceberg.property_names import PROPERTY_SOURCE
from spark_job.iceberg.write_properties import file_locations
from spark_job.index.location import index_location
from spark_job.storage.classify_errors import error_text

_MAX_CLOCK_SKEW_SECONDS = 60


def expire(
    mirror_table: Table, name: str, *, configured_location: str | None = None, dry_run: bool = False
) -> ExpireResult:
    """Remove due snapshots and the files that only they reference; with `dry_run` only count them."""
    require_owned_files(mirror_table.metadata, name)
    now_ms = int(time.time() * 1000)
    table_index_location = index_location(mirror_table.metadata, configured_location)
    if dry_run:
        return _count_due(mirror_table, name, now_ms, table_index_location)
    _refuse_clock_skew(mirror_table.metadata, name, now_ms)
    # Refuses a table whose metadata files would go to an unsupported location.
    file_locations(mirror_table.metadata.location, mirror_table.metadata.properties)
    snapshots = deleted = not_deleted = 0

    while True:
        expiry, metadata = _expire_due(mirror_table, name, now_ms)
        if not expiry.snapshots:
            break
        snapshots += len(expiry.snapshots)
        discarded = delete_unreferenced_files(
            mirror_table, find_expired_files(mirror_table, expiry, metadata, table_index_location)
        )
        deleted += discarded.deleted
        not_deleted += discarded.not_deleted
    return ExpireResult(
        table=name,
        dry_run=False,
        snapshots=snapshots,
        retained=len(metadata.snapshots),
        files=deleted,
        left=not_deleted,
    )


def _expire_due(mirror_table: Table, name: str, now_ms: int) -> tuple[Expiry, TableMetadata]:
    """Commit the expiry of due snapshots. Return it, and the metadata after it."""
    retries = ConflictRetries(
        exhausted=f"{name}: another writer committed to the mirror during each of {MAX_ATTEMPTS} attempts to "
        "expire snapshots. Try again later."
    )
    while True:
        current = mirror_table.catalog.load_table(mirror_table.name())
        with retries:
            expiry = Expiry(current.metadata, due_snapshots(current.metadata, now_ms))
            return expiry, _commit_expiry(current, expiry) if expiry.snapshots else current.metadata


def require_owned_files(metadata: TableMetadata, name: str) -> None:
    """Raise `Invalid` for a table that is no mirror, or whose files other tables may share."""
    if PROPERTY_SOURCE not in metadata.properties:
        raise Invalid(f"{name}: is not a mirror, so nothing was deleted.")
    if not gc_enabled(metadata):
        raise Invalid(
            f"{name}: its property gc.enabled is false, so its files may belong to other tables too. "
            "Nothing was deleted; set it to true if they do not."
        )


def _refuse_clock_skew(metadata: TableMetadata, name: str, now_ms: int) -> None:
    """Raise `Invalid` if this clock is behind the table: Iceberg Java reads no table whose update time goes back."""
    seconds_ahead = (metadata.last_updated_ms - now_ms) // 1000
    if seconds_ahead > _MAX_CLOCK_SKEW_SECONDS:
        raise Invalid(
            f"{name}: the table's last update is {seconds_ahead} seconds ahead of this machine's clock. Nothing was "
            "removed. Correct the wrong clock. Merges still expire snapshots with their own commits."
        )


def _commit_expiry(mirror_table: Table, expiry: Expiry) -> TableMetadata:
    """Commit an expiry on the head that was read: a running merge may build on it. Return the metadata after it."""
    same_head = AssertRefSnapshotId.model_validate(
        {"ref": MAIN_BRANCH, "snapshot-id": main_head(expiry.metadata)}
    )
    updates = tuple(
        RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [snapshot_id]})
        for snapshot_id in expiry.snapshot_ids
    )
    crash_point("expire")
    requirements = AssertTableUUID(uuid=expiry.metadata.table_uuid), same_head
    try:
        metadata = mirror_table.catalog.commit_table(mirror_table, requirements, updates).metadata
    except CommitFailedException as error:
        raise Conflict(f"the mirror moved while its snapshots were expired: {error_text(error)}") from error
    crash_point("expired")
    return metadata


def _count_due(mirror_table: Table, name: str, now_ms: int, table_index_location: str) -> ExpireResult:
    """Return what the commits would remove, without committing."""
    metadata, snapshots, files = mirror_table.metadata, 0, 0
    while due := due_snapshots(metadata, now_ms):
        due_ids = {snapshot.snapshot_id for snapshot in due}
        metadata_after = metadata.model_copy(
            update={
                "snapshots": [
                    snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in due_ids
                ]
            }
        )
        files += len(
            find_expired_files(mirror_table, Expiry(metadata, due), metadata_after, table_index_location)
        )
        metadata, snapshots = metadata_after, snapshots + len(due)
    return ExpireResult(
        table=name, dry_run=True, snapshots=snapshots, retained=len(metadata.snapshots), files=files, left=0
    )
