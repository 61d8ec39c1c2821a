"""Expiry within a merge's own commit: chosen before it, cleaned up after it. Neither may fail the merge."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from icemirror.crash import reach
from icemirror.telemetry.logs import get_log
from spark_job.files.discard import Discarded, discard
from spark_job.maintenance.own_places import OwnPlaces
from spark_job.maintenance.retention import are_worth_it, due_snapshots, main_head, may_delete, most_due
from spark_job.maintenance.unreferenced import Unreferenced, find_unreferenced

_DELETE_METADATA = "write.metadata.delete-after-commit.enabled"

log = get_log(__name__)


@dataclass(frozen=True)
class Expiry:
    """The snapshots that a commit removes, and the table as it was when they were chosen."""

    before: TableMetadata
    snapshots: tuple[Snapshot, ...] = ()

    @property
    def snapshot_ids(self) -> tuple[int, ...]:
        """Their ids, oldest first."""
        return tuple(snapshot.snapshot_id for snapshot in self.snapshots)


def choose_expired(table: Table) -> Expiry:
    """The snapshots that the next commit on a mirror should remove; mostly none.

    They are chosen on the table as it is now, not as it was when the merge began: somebody may have tagged one since.
    """
    nothing = Expiry(table.metadata)
    with _forgiven("expiry skipped"):
        if not _due(table.metadata):
            return nothing
        fresh = table.catalog.load_table(table.name()).metadata
        if main_head(fresh) == main_head(table.metadata):
            return Expiry(fresh, _due(fresh))
    return nothing


def _due(metadata: TableMetadata) -> tuple[Snapshot, ...]:
    now_ms = int(time.time() * 1000)
    if not may_delete(metadata) or not are_worth_it(metadata, most_due(metadata, now_ms, coming=1)):
        return ()
    due = due_snapshots(metadata, now_ms, coming=1)
    return due if are_worth_it(metadata, len(due)) else ()


def clean_up(table: Table, expiry: Expiry, after: TableMetadata, index_place: str) -> Discarded:
    """After the commit is certain: deletes what only the expired snapshots reached, and old metadata files."""
    done = Discarded()
    with _forgiven("expired files left"):
        files = find_files(table, expiry, after, index_place)
        done = delete_files(table, files)
        if expiry.snapshots or done.left:
            log.info(
                "snapshots expired",
                snapshots=len(expiry.snapshots),
                files_deleted=done.deleted,
                files_left=done.left,
                reason=done.reason,
            )
    return done


def find_files(table: Table, expiry: Expiry, after: TableMetadata, index_place: str) -> Unreferenced:
    """What a commit set free: by the snapshots that it removed, and in the log of metadata files."""
    own = OwnPlaces.of(expiry.before, index_place)
    free = find_unreferenced(table.io, expiry.before, after, expiry.snapshots, own)
    old = frozenset(filter(own.has_file, _old_metadata(expiry.before, after)))
    return Unreferenced(free.content, free.metadata | old, free.index)


def delete_files(table: Table, files: Unreferenced) -> Discarded:
    """Deletes them, what names others last."""
    if not len(files):
        return Discarded()
    reach("delete-expired")
    first = discard(table.io, files.content | files.index)
    reach("expired-half-deleted")
    second = discard(table.io, files.metadata)
    reach("expired-deleted")
    return Discarded(first.deleted + second.deleted, first.left + second.left, first.reason or second.reason)


def _old_metadata(before: TableMetadata, after: TableMetadata) -> set[str]:
    """Metadata files that have left the log. `Table` does this for its own commits, catalogs do not."""
    if after.properties.get(_DELETE_METADATA, "false").lower() != "true":
        return set()
    return {entry.metadata_file for entry in before.metadata_log} - {
        entry.metadata_file for entry in after.metadata_log
    }


@contextmanager
def _forgiven(event: str) -> Iterator[None]:
    """A merge does not fail because tidying up did."""
    try:
        yield
    except Exception as error:
        log.warning(event, reason=f"{type(error).__name__}: {error}")
