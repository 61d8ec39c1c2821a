"""The manifests of snapshots, read once: a merge asks for the same list several times.

A commit puts its manifests before those that it found. So of the list of a changelog with a thousand commits all but
the first few were in the list before it.
"""

from __future__ import annotations

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.snapshots import Snapshot

from spark_job.iceberg.avro import NOTHING, Decoded
from spark_job.iceberg.seams import list_manifests_after
from spark_job.immutable import ReadOnce

_MOST_MANIFESTS = 20_000
_MOST_BYTES = 64 << 20

_lists: ReadOnce[tuple[ManifestFile, ...]] = ReadOnce(_MOST_MANIFESTS, lambda found: 1 + len(found))
_newest: ReadOnce[Decoded] = ReadOnce(
    _MOST_BYTES, lambda found: len(found.content)
)  # by folder: for each table


def known_manifests(io: FileIO, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot. They are everybody's: not to be changed."""
    path = snapshot.manifest_list
    return _lists.get(path, lambda: _read(io, path))


def _read(io: FileIO, path: str) -> tuple[ManifestFile, ...]:
    folder, _, _ = path.rpartition("/")
    found = list_manifests_after(io, path, _newest.find(folder) or NOTHING)
    _newest.put(folder, found)
    return tuple(found.records)
