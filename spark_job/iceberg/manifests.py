"""The manifests of a mirror's snapshots, read once: a merge asks for the same list several times."""

from __future__ import annotations

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.snapshots import Snapshot

from spark_job.iceberg.seams import list_manifests
from spark_job.immutable import ReadOnce

_MOST_MANIFESTS = 20_000

_lists: ReadOnce[tuple[ManifestFile, ...]] = ReadOnce(_MOST_MANIFESTS, lambda found: 1 + len(found))


def known_manifests(io: FileIO, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot. They are everybody's: not to be changed."""
    path = snapshot.manifest_list
    return _lists.get(path, lambda: tuple(list_manifests(io, path)))
