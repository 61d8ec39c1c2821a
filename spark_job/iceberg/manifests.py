"""Loads the manifest lists of snapshots through a cache: a merge needs the same list several times.

A commit puts its new manifests before the existing ones. So the list of a changelog with a thousand commits differs
from the previous list only in its first few entries. Only these are decoded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from spark_job.pyiceberg_private.avro import NO_RECORDS, AvroRecords
from spark_job.pyiceberg_private.manifest_files import decode_manifest_list
from spark_job.storage.file_cache import FileCache

_MAX_CACHED_MANIFESTS = 20_000
_MAX_CACHED_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class ManifestList:
    """The manifests of a snapshot, with their sequence numbers and contents as arrays. Shared: do not modify."""

    manifests: tuple[ManifestFile, ...]
    sequence_numbers: NDArray[np.int64]
    are_deletes: NDArray[np.bool_]

    def written_since(self, sequence_number: int) -> list[ManifestFile]:
        """Return the manifests that were written by the commit with this sequence number, or later."""
        positions = np.flatnonzero(self.sequence_numbers >= sequence_number)
        return [self.manifests[position] for position in positions.tolist()]

    @property
    def has_deletes(self) -> bool:
        """Return whether one of them lists delete files."""
        return bool(self.are_deletes.any())


@dataclass(frozen=True, eq=False)
class _CachedList:
    """The most recently read manifest list of a table."""

    decoded: AvroRecords
    manifest_list: ManifestList


_lists: FileCache[ManifestList] = FileCache(_MAX_CACHED_MANIFESTS, lambda loaded: 1 + len(loaded.manifests))
# The key is the metadata folder, so there is one list for each table.
_newest_by_folder: FileCache[_CachedList] = FileCache(
    _MAX_CACHED_BYTES, lambda cached: len(cached.decoded.content)
)


def load_manifests(io: FileIO, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
    """Return the manifests of a snapshot. Shared: do not modify."""
    return load_manifest_list(io, snapshot).manifests


def load_manifest_list(io: FileIO, snapshot: Snapshot) -> ManifestList:
    """Return the manifest list of a snapshot."""
    path = snapshot.manifest_list
    return _lists.get(path, lambda: _read_list(io, path))


def _read_list(io: FileIO, path: str) -> ManifestList:
    """Read a manifest list; decode only the entries that the table's previous list does not end with."""
    folder, _, _ = path.rpartition("/")
    previous = _newest_by_folder.find(folder)
    decoded = decode_manifest_list(io, path, previous.decoded if previous else NO_RECORDS)
    manifest_list = _extend_list(decoded, previous.manifest_list if previous else None)
    _newest_by_folder.put(folder, _CachedList(decoded, manifest_list))
    return manifest_list


def _extend_list(decoded: AvroRecords, previous: ManifestList | None) -> ManifestList:
    """Return the list; the arrays of the `reused` manifests that the previous list ends with are reused."""
    reused = decoded.reused if previous else 0
    new_manifests: list[ManifestFile] = decoded.records[: len(decoded.records) - reused]
    sequence_numbers = np.array([manifest.sequence_number or 0 for manifest in new_manifests], dtype=np.int64)
    are_deletes = np.array(
        [manifest.content is not ManifestContent.DATA for manifest in new_manifests], dtype=np.bool_
    )
    if previous and reused:
        sequence_numbers = np.concatenate([sequence_numbers, previous.sequence_numbers[-reused:]])
        are_deletes = np.concatenate([are_deletes, previous.are_deletes[-reused:]])
    return ManifestList(tuple(decoded.records), sequence_numbers, are_deletes)
