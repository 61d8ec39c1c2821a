"""The manifests of snapshots, read once: a merge asks for the same list several times.

A commit puts its manifests before those that it found. So of the list of a changelog with a thousand commits all but
the first few were in the list before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from spark_job.files.immutable import ReadOnce
from spark_job.iceberg.avro import NOTHING, Decoded
from spark_job.iceberg.seams import list_manifests_after

_MOST_MANIFESTS = 20_000
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class ManifestList:
    """The manifests of a snapshot, which are everybody's, and what every merge asks of all of them."""

    manifests: tuple[ManifestFile, ...]
    numbers: NDArray[np.int64]
    are_deletes: NDArray[np.bool_]

    def since(self, number: int) -> list[ManifestFile]:
        """Those that were written by the commit of this sequence number, or later."""
        return [self.manifests[at] for at in np.flatnonzero(self.numbers >= number).tolist()]

    @property
    def has_deletes(self) -> bool:
        """Whether one of them names deletes."""
        return bool(self.are_deletes.any())


@dataclass(frozen=True, eq=False)
class _Newest:
    """The list of a table that was read last."""

    decoded: Decoded
    listed: ManifestList


_lists: ReadOnce[ManifestList] = ReadOnce(_MOST_MANIFESTS, lambda found: 1 + len(found.manifests))
_newest: ReadOnce[_Newest] = ReadOnce(
    _MOST_BYTES, lambda found: len(found.decoded.content)
)  # by folder: for each table


def known_manifests(io: FileIO, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot. They are everybody's: not to be changed."""
    return known_list(io, snapshot).manifests


def known_list(io: FileIO, snapshot: Snapshot) -> ManifestList:
    """The manifest list of a snapshot."""
    path = snapshot.manifest_list
    return _lists.get(path, lambda: _read(io, path))


def _read(io: FileIO, path: str) -> ManifestList:
    folder, _, _ = path.rpartition("/")
    before = _newest.find(folder)
    found = list_manifests_after(io, path, before.decoded if before else NOTHING)
    listed = _look_at(found, before.listed if before else None)
    _newest.put(folder, _Newest(found, listed))
    return listed


def _look_at(found: Decoded, before: ManifestList | None) -> ManifestList:
    """What is not known of those that were taken over from the list before."""
    taken = found.taken if before else 0
    fresh: list[ManifestFile] = found.records[: len(found.records) - taken]
    numbers = np.array([one.sequence_number or 0 for one in fresh], dtype=np.int64)
    are_deletes = np.array([one.content is not ManifestContent.DATA for one in fresh], dtype=np.bool_)
    if before and taken:
        numbers = np.concatenate([numbers, before.numbers[-taken:]])
        are_deletes = np.concatenate([are_deletes, before.are_deletes[-taken:]])
    return ManifestList(tuple(found.records), numbers, are_deletes)
