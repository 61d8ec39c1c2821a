"""Decide which snapshots of a mirror may expire. Pure: from its metadata alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from icemirror.tables.mirror_properties import MAX_SNAPSHOT_AGE_MS, MAX_SNAPSHOTS, MIN_SNAPSHOTS
from spark_job.iceberg.ancestry import walk_ancestors
from spark_job.iceberg.property_names import PROPERTY_CURSOR
from spark_job.iceberg.write_properties import read_number

_GC_ENABLED = "gc.enabled"
# Expiry costs a few requests for any number of snapshots, so snapshots expire in batches: at least one in this many.
_SNAPSHOTS_PER_DUE_SNAPSHOT = 10
_MAX_BATCH_SNAPSHOTS = 100


@dataclass(frozen=True, slots=True)
class Retention:
    """The newest `min_snapshots` always stay; the oldest expire beyond `max_snapshots`, and past the age."""

    min_snapshots: int
    max_snapshots: int
    age_ms: int


def read_retention(metadata: TableMetadata) -> Retention:
    """Return the retention in the table's properties; that of its main branch takes precedence."""
    properties = metadata.properties
    min_snapshots = read_number(properties, MIN_SNAPSHOTS)
    age_ms = read_number(properties, MAX_SNAPSHOT_AGE_MS)
    if main := metadata.refs.get(MAIN_BRANCH):
        min_snapshots = main.min_snapshots_to_keep or min_snapshots
        age_ms = main.max_snapshot_age_ms or age_ms
    return Retention(min_snapshots, max(min_snapshots, read_number(properties, MAX_SNAPSHOTS)), age_ms)


def gc_enabled(metadata: TableMetadata) -> bool:
    """Return whether the table owns its files; if `gc.enabled` is false, other tables may share them."""
    return metadata.properties.get(_GC_ENABLED, "true").lower() != "false"


def due_snapshots(metadata: TableMetadata, now_ms: int, added_snapshots: int = 0) -> tuple[Snapshot, ...]:
    """Return the snapshots that may expire, oldest first, as many as one commit should remove.

    `added_snapshots`: snapshots that the same commit adds. Snapshots of branches and tags are retained, and those from
    the newest one with a cursor up to the head.
    """
    retention = read_retention(metadata)
    main = list(walk_ancestors(metadata.snapshots, main_head(metadata)))
    protected_ids = _protected_snapshot_ids(metadata, main)
    oldest_first = main[::-1]
    removable = max(0, len(main) + added_snapshots - max(1, retention.min_snapshots))
    excess = max(0, len(main) + added_snapshots - retention.max_snapshots)
    due: list[Snapshot] = []
    for index, snapshot in enumerate(oldest_first[:removable]):
        if index >= excess and now_ms - snapshot.timestamp_ms <= retention.age_ms:
            break
        due.append(snapshot)
    main_ids = {snapshot.snapshot_id for snapshot in main}
    # Abandoned by a rollback, or staged and never published.
    due.extend(
        snapshot
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id not in main_ids and now_ms - snapshot.timestamp_ms > retention.age_ms
    )
    return tuple(snapshot for snapshot in due if snapshot.snapshot_id not in protected_ids)[
        :_MAX_BATCH_SNAPSHOTS
    ]


def is_worth_expiring(metadata: TableMetadata, due_count: int) -> bool:
    """Return whether a merge should remove this many snapshots now, or wait for more."""
    return due_count >= min(
        _MAX_BATCH_SNAPSHOTS, max(1, len(metadata.snapshots) // _SNAPSHOTS_PER_DUE_SNAPSHOT)
    )


def count_due_at_most(metadata: TableMetadata, now_ms: int, added_snapshots: int = 0) -> int:
    """Return an upper bound of the snapshots that may expire; cheap, because every merge calls it."""
    retention = read_retention(metadata)
    old_count = sum(now_ms - snapshot.timestamp_ms > retention.age_ms for snapshot in metadata.snapshots)
    return old_count + max(0, len(metadata.snapshots) + added_snapshots - retention.max_snapshots)


def main_head(metadata: TableMetadata) -> int | None:
    """Return the id of the snapshot that readers see."""
    main = metadata.refs.get(MAIN_BRANCH)
    return main.snapshot_id if main else metadata.current_snapshot_id


def _protected_snapshot_ids(metadata: TableMetadata, main: Sequence[Snapshot]) -> set[int]:
    protected_ids: set[int] = set()
    for name, ref in metadata.refs.items():
        if name != MAIN_BRANCH and ref.snapshot_ref_type is SnapshotRefType.BRANCH:
            protected_ids.update(
                snapshot.snapshot_id for snapshot in walk_ancestors(metadata.snapshots, ref.snapshot_id)
            )
        else:
            protected_ids.add(ref.snapshot_id)
    # The next merge walks back from the head to the newest snapshot with a cursor.
    for snapshot in main:
        protected_ids.add(snapshot.snapshot_id)
        if snapshot.summary and PROPERTY_CURSOR in snapshot.summary.additional_properties:
            break
    return protected_ids
