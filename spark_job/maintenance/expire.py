"""`maintain expire`: removes all snapshots that are due, in commits of their own."""

from __future__ import annotations

import time

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate

from icemirror.crash import reach
from icemirror.errors import Conflict, Invalid
from icemirror.result import ExpireResult
from spark_job.iceberg.file_locations import file_locations
from spark_job.iceberg.mirror import SOURCE
from spark_job.key_index.index_location import index_location
from spark_job.maintenance.expiry import Expiry, delete_files, find_files
from spark_job.maintenance.retention import due_snapshots, main_head, may_delete

_MOST_CONFLICTS = 8
_MOST_SECONDS_BACK = 60


def expire(
    table: Table, name: str, *, configured_index: str | None = None, dry_run: bool = False
) -> ExpireResult:
    """Removes what is due and what only that reached; with `dry_run` it only counts."""
    require_own_files(table.metadata, name)
    now_ms = int(time.time() * 1000)
    index_place = index_location(table.metadata, configured_index)
    if dry_run:
        return _count(table, name, now_ms, index_place)
    _require_clock(table.metadata, name, now_ms)
    file_locations(
        table.metadata.location, table.metadata.properties
    )  # where the commit puts its metadata file
    snapshots = deleted = left = conflicts = 0
    while due := due_snapshots(table.metadata, now_ms):
        expiry = Expiry(table.metadata, due)
        try:
            after = _commit(table, expiry)
        except CommitFailedException as error:
            conflicts += 1
            if conflicts == _MOST_CONFLICTS:
                raise Conflict(f"{name}: the mirror moved during every attempt: {error}") from error
            table = table.catalog.load_table(table.name())
            continue
        snapshots += len(due)
        done = delete_files(table, find_files(table, expiry, after, index_place))
        deleted, left = deleted + done.deleted, left + done.left
        table = table.catalog.load_table(table.name())
    return ExpireResult(
        table=name,
        dry_run=False,
        snapshots=snapshots,
        retained=len(table.metadata.snapshots),
        files=deleted,
        left=left,
    )


def require_own_files(metadata: TableMetadata, name: str) -> None:
    """Refuses a table that is no mirror, or whose files others may use."""
    if SOURCE not in metadata.properties:
        raise Invalid(f"{name}: icemirror did not make this table, so it deletes nothing there.")
    if not may_delete(metadata):
        raise Invalid(
            f"{name}: its property gc.enabled is false, so its files may belong to other tables too. "
            "Nothing is deleted; set it to true if they do not."
        )


def _require_clock(metadata: TableMetadata, name: str, now_ms: int) -> None:
    """A commit without a snapshot takes the time of this machine, and Iceberg Java reads no table that goes back."""
    behind = (metadata.last_updated_ms - now_ms) // 1000
    if behind > _MOST_SECONDS_BACK:
        raise Invalid(
            f"{name}: by this machine's clock the table was last written {behind} seconds from now. Nothing was "
            "removed; set the clock that is wrong. Merges remove what is due all the same, with their own commits."
        )


def _commit(table: Table, expiry: Expiry) -> TableMetadata:
    """Only on the head that was seen: a merge may be under way that builds on it."""
    fence = AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": main_head(expiry.before)})
    updates = tuple(
        RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [one]}) for one in expiry.snapshot_ids
    )
    reach("expire")
    response = table.catalog.commit_table(
        table, (AssertTableUUID(uuid=expiry.before.table_uuid), fence), updates
    )
    reach("expired")
    return response.metadata


def _count(table: Table, name: str, now_ms: int, index_place: str) -> ExpireResult:
    """One commit after the other, without committing."""
    metadata, snapshots, files = table.metadata, 0, 0
    while due := due_snapshots(metadata, now_ms):
        gone = {snapshot.snapshot_id for snapshot in due}
        after = metadata.model_copy(
            update={"snapshots": [one for one in metadata.snapshots if one.snapshot_id not in gone]}
        )
        files += len(find_files(table, Expiry(metadata, due), after, index_place))
        metadata, snapshots = after, snapshots + len(due)
    return ExpireResult(
        table=name, dry_run=True, snapshots=snapshots, retained=len(metadata.snapshots), files=files, left=0
    )
