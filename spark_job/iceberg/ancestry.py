"""Ancestors of a snapshot, and whether a snapshot descends from a commit whose snapshot has expired."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from icemirror.errors import Corrupt
from spark_job.iceberg.manifests import load_manifests
from spark_job.pyiceberg_private.manifest_files import read_manifest_entries


def walk_ancestors(snapshots: Sequence[Snapshot], snapshot_id: int | None) -> Iterator[Snapshot]:
    """Yield a snapshot and its known ancestors, newest first. Raise `Corrupt` on a cycle.

    Snapshots are indexed only as far as needed: most callers stop after a few steps, and parents are listed shortly
    before their children.
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
                f"the snapshot history contains a cycle at {snapshot_id}. Restore an earlier metadata file of the "
                f"table. The snapshot's manifest list: {snapshot.manifest_list}"
            )
        yield snapshot
        walked.add(snapshot_id)
        snapshot_id = snapshot.parent_snapshot_id


def has_files_of_commit(io: FileIO, snapshot: Snapshot, sequence_number: int) -> bool:
    """Return whether the snapshot lists a file, live or deleted, that the commit with this sequence number added.

    A table assigns each sequence number once, also after a rollback. Later commits keep an entry's file sequence number
    when they copy the entry or mark its file as deleted.
    """
    manifests = _manifests_from(io, snapshot, sequence_number)
    return any(manifest.sequence_number == sequence_number for manifest in manifests) or any(
        file_number == sequence_number for file_number in _file_sequence_numbers(io, manifests)
    )


def has_files_of_commits_between(io: FileIO, snapshot: Snapshot, first: int, last: int) -> bool:
    """Return whether the snapshot lists a file, live or deleted, of a commit with a number in (first, last]."""
    manifests = _manifests_from(io, snapshot, first + 1)
    return any(first < file_number <= last for file_number in _file_sequence_numbers(io, manifests))


def _manifests_from(io: FileIO, snapshot: Snapshot, sequence_number: int) -> list[ManifestFile]:
    """Return the manifests that may list files of the commit with this sequence number, or of later commits."""
    return [
        manifest
        for manifest in load_manifests(io, snapshot)
        if (manifest.sequence_number or 0) >= sequence_number
    ]


def _file_sequence_numbers(io: FileIO, manifests: Sequence[ManifestFile]) -> Iterator[int]:
    """Yield the sequence numbers of the commits that added the files of these manifests."""
    for manifest in manifests:
        for entry in read_manifest_entries(io, manifest, deleted=True):
            yield entry.file_sequence_number or 0


def has_files_of_other_commits(io: FileIO, snapshot: Snapshot) -> bool:
    """Return whether the snapshot lists a file, live or deleted, that another commit added."""
    manifests = load_manifests(io, snapshot)
    inherited = [manifest for manifest in manifests if manifest.added_snapshot_id != snapshot.snapshot_id]
    written_here = [manifest for manifest in manifests if manifest.added_snapshot_id == snapshot.snapshot_id]
    return any(manifest.has_added_files() or manifest.has_existing_files() for manifest in inherited) or any(
        entry.status is not ManifestEntryStatus.ADDED
        for manifest in written_here
        if manifest.has_existing_files() or manifest.deleted_files_count != 0
        for entry in read_manifest_entries(io, manifest, deleted=True)
    )
