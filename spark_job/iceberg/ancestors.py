"""The way back from a snapshot, parent by parent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.table.snapshots import Snapshot

from icemirror.errors import Corrupt


def walk_ancestors(snapshots: Sequence[Snapshot], snapshot_id: int | None) -> Iterator[Snapshot]:
    """A snapshot and its ancestors as far as they are known, newest first; `Corrupt` where they go in a circle.

    Most who walk stop after a few steps, and a table lists its parents just before their children.
    """
    newest_first = reversed(snapshots)
    seen: dict[int, Snapshot] = {}
    walked: set[int] = set()
    while snapshot_id is not None:
        while snapshot_id not in seen and (older := next(newest_first, None)):
            seen[older.snapshot_id] = older
        if (snapshot := seen.get(snapshot_id)) is None:
            return
        if snapshot_id in walked:
            raise Corrupt(
                f"{snapshot.manifest_list}: the snapshot {snapshot_id} of this manifest list is its own ancestor, by "
                "the table's metadata. Put the table back to an earlier metadata file."
            )
        yield snapshot
        walked.add(snapshot_id)
        snapshot_id = snapshot.parent_snapshot_id
