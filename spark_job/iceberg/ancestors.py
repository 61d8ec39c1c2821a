"""The way back from a snapshot, parent by parent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyiceberg.table.snapshots import Snapshot

from icemirror.errors import Corrupt


def walk_ancestors(snapshots: Iterable[Snapshot], snapshot_id: int | None) -> Iterator[Snapshot]:
    """A snapshot and its ancestors as far as they are known, newest first; `Corrupt` where they go in a circle."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
    walked: set[int] = set()
    while snapshot_id is not None and (snapshot := by_id.get(snapshot_id)):
        if snapshot_id in walked:
            raise Corrupt(
                f"{snapshot.manifest_list}: the snapshot {snapshot_id} of this manifest list is its own ancestor, by "
                "the table's metadata. Put the table back to an earlier metadata file."
            )
        yield snapshot
        walked.add(snapshot_id)
        snapshot_id = snapshot.parent_snapshot_id
