"""Which snapshots of a mirror may go: decided from its metadata alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from icemirror.mirror_properties import MAX_SNAPSHOT_AGE_MS, MAX_SNAPSHOTS, MIN_SNAPSHOTS
from spark_job.iceberg.ancestors import walk_ancestors
from spark_job.iceberg.mirror import CURSOR
from spark_job.iceberg.write_properties import read_number

_GC_ENABLED = "gc.enabled"
# Expiring costs a few requests whatever the number of snapshots, so a tenth of them goes at a time.
_BATCHES = 10
_MOST_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Retention:
    """The newest `least` snapshots stay in any case; beyond `most`, and past the age, the oldest go."""

    least: int
    most: int
    age_ms: int


def read_retention(metadata: TableMetadata) -> Retention:
    """By the properties of the table, over which those of its main branch take precedence."""
    properties = metadata.properties
    least = read_number(properties, MIN_SNAPSHOTS)
    age_ms = read_number(properties, MAX_SNAPSHOT_AGE_MS)
    if main := metadata.refs.get(MAIN_BRANCH):
        least = main.min_snapshots_to_keep or least
        age_ms = main.max_snapshot_age_ms or age_ms
    return Retention(least, max(least, read_number(properties, MAX_SNAPSHOTS)), age_ms)


def may_delete(metadata: TableMetadata) -> bool:
    """Whether the files of this table are its own; other tables may share them where `gc.enabled` is false."""
    return metadata.properties.get(_GC_ENABLED, "true").lower() != "false"


def due_snapshots(metadata: TableMetadata, now_ms: int, coming: int = 0) -> tuple[Snapshot, ...]:
    """The snapshots that may go, oldest first, as many as one commit should remove.

    `coming` more are added by the same commit. Branches and tags keep what they name, and the snapshots from the one
    that holds the cursor to the head stay.
    """
    retention = read_retention(metadata)
    main = list(walk_ancestors(metadata.snapshots, main_head(metadata)))
    kept = _kept(metadata, main)
    oldest_first = main[::-1]
    room = max(0, len(main) + coming - max(1, retention.least))
    too_many = max(0, len(main) + coming - retention.most)
    due: list[Snapshot] = []
    for place, snapshot in enumerate(oldest_first[:room]):
        if place >= too_many and now_ms - snapshot.timestamp_ms <= retention.age_ms:
            break
        due.append(snapshot)
    here = {snapshot.snapshot_id for snapshot in main}
    # Left by a rollback, or staged and never published.
    due.extend(
        snapshot
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id not in here and now_ms - snapshot.timestamp_ms > retention.age_ms
    )
    return tuple(snapshot for snapshot in due if snapshot.snapshot_id not in kept)[:_MOST_AT_ONCE]


def are_worth_it(metadata: TableMetadata, due: int) -> bool:
    """Whether a merge should remove so many now, or wait until there are more."""
    return due >= min(_MOST_AT_ONCE, max(1, len(metadata.snapshots) // _BATCHES))


def most_due(metadata: TableMetadata, now_ms: int, coming: int = 0) -> int:
    """At most so many may go: told without going through the history, as every merge asks."""
    retention = read_retention(metadata)
    old = sum(now_ms - snapshot.timestamp_ms > retention.age_ms for snapshot in metadata.snapshots)
    return old + max(0, len(metadata.snapshots) + coming - retention.most)


def main_head(metadata: TableMetadata) -> int | None:
    """The snapshot that readers see."""
    main = metadata.refs.get(MAIN_BRANCH)
    return main.snapshot_id if main else metadata.current_snapshot_id


def _kept(metadata: TableMetadata, main: Sequence[Snapshot]) -> set[int]:
    kept: set[int] = set()
    for name, ref in metadata.refs.items():
        if name != MAIN_BRANCH and ref.snapshot_ref_type is SnapshotRefType.BRANCH:
            kept.update(
                snapshot.snapshot_id for snapshot in walk_ancestors(metadata.snapshots, ref.snapshot_id)
            )
        else:
            kept.add(ref.snapshot_id)
    # The next merge walks back from the head to the snapshot that holds the cursor.
    for snapshot in main:
        kept.add(snapshot.snapshot_id)
        if snapshot.summary and CURSOR in snapshot.summary.additional_properties:
            break
    return kept
