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
from spark_job.storage.immutable_cache import FileCache

_MAX_CACHED_MANIFESTS = 20_000
_MAX_CACHED_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class ManifestList:
    """The manifests of a snapshot, with their sequence numbers and contents as arrays. Shared: do not modify."""

    manifests: tuple[ManifestFile, ...]
    sequence_numbers: NDArray[np.int64]
    are_deletes: NDArray[np.bool_]

    def since(self, number: int) -> list[ManifestFile]:
        """Return the manifests that were written by the commit with this sequence number, or later."""
        return [self.manifests[at] for at in np.flatnonzero(self.sequence_numbers >= number).tolist()]

    @property
    def has_deletes(self) -> bool:
        """Whether one of them lists delete files."""
        return bool(self.are_deletes.any())


@dataclass(frozen=True, eq=False)
class _CachedList:
    """The most recently read manifest list of a table."""

    decoded: AvroRecords
    listed: ManifestList


_lists: FileCache[ManifestList] = FileCache(_MAX_CACHED_MANIFESTS, lambda found: 1 + len(found.manifests))
_newest: FileCache[_CachedList] = FileCache(
    _MAX_CACHED_BYTES, lambda found: len(found.decoded.content)
)  # by metadata folder: one for each table


def load_manifests(io: FileIO, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
    """Return the manifests of a snapshot. Shared: do not modify."""
    return load_manifest_list(io, snapshot).manifests


def load_manifest_list(io: FileIO, snapshot: Snapshot) -> ManifestList:
    """Return the manifest list of a snapshot."""
    path = snapshot.manifest_list
    return _lists.get(path, lambda: _read(io, path))


def _read(io: FileIO, path: str) -> ManifestList:
    folder, _, _ = path.rpartition("/")
    before = _newest.find(folder)
    found = decode_manifest_list(io, path, before.decoded if before else NO_RECORDS)
    listed = _extend_list(found, before.listed if before else None)
    _newest.put(folder, _CachedList(found, listed))
    return listed


def _extend_list(found: AvroRecords, before: ManifestList | None) -> ManifestList:
    """Return the list; the arrays of the `taken` manifests that the previous list ends with are reused."""
    taken = found.taken if before else 0
    fresh: list[ManifestFile] = found.records[: len(found.records) - taken]
    sequence_numbers = np.array([manifest.sequence_number or 0 for manifest in fresh], dtype=np.int64)
    are_deletes = np.array(
        [manifest.content is not ManifestContent.DATA for manifest in fresh], dtype=np.bool_
    )
    if before and taken:
        sequence_numbers = np.concatenate([sequence_numbers, before.sequence_numbers[-taken:]])
        are_deletes = np.concatenate([are_deletes, before.are_deletes[-taken:]])
    return ManifestList(tuple(found.records), sequence_numbers, are_deletes)
