"""Whether a snapshot came after a commit that has expired, where nothing ties the two together any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from spark_job.iceberg.manifests import known_manifests
from spark_job.iceberg.seams import read_entries


def holds_files_of(io: FileIO, snapshot: Snapshot, number: int) -> bool:
    """Whether the snapshot lists, or takes away, a file that the commit of this sequence number added.

    A number is given once in the life of a table, also after a rollback. An entry keeps that of its file when other
    commits copy it, and when they name the file as deleted.
    """
    later = _manifests_from(io, snapshot, number)
    return any(one.sequence_number == number for one in later) or any(
        told == number for told in _numbers(io, later)
    )


def holds_files_between(io: FileIO, snapshot: Snapshot, first: int, last: int) -> bool:
    """Whether it lists, or takes away, a file of a commit after `first` and up to `last`."""
    return any(first < told <= last for told in _numbers(io, _manifests_from(io, snapshot, first + 1)))


def _manifests_from(io: FileIO, snapshot: Snapshot, number: int) -> list[ManifestFile]:
    """Those that may name files of the commit of this number, or of later ones."""
    return [one for one in known_manifests(io, snapshot) if (one.sequence_number or 0) >= number]


def _numbers(io: FileIO, manifests: Sequence[ManifestFile]) -> Iterator[int]:
    """The sequence numbers of the commits that added their files."""
    for manifest in manifests:
        for entry in read_entries(io, manifest, deleted=True):
            yield entry.file_sequence_number or 0


def holds_files_of_others(io: FileIO, snapshot: Snapshot) -> bool:
    """Whether the snapshot lists, or takes away, a file that it did not add itself."""
    named = known_manifests(io, snapshot)
    theirs = [one for one in named if one.added_snapshot_id != snapshot.snapshot_id]
    own = [one for one in named if one.added_snapshot_id == snapshot.snapshot_id]
    return any(one.has_added_files() or one.has_existing_files() for one in theirs) or any(
        entry.status is not ManifestEntryStatus.ADDED
        for manifest in own
        if manifest.has_existing_files() or manifest.deleted_files_count != 0
        for entry in read_entries(io, manifest, deleted=True)
    )
