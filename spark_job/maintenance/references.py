"""What a snapshot reaches: manifests, data and delete files, and its index. Read once, for files never change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from spark_job.iceberg.mirror import INDEX_ROOT
from spark_job.iceberg.seams import list_manifests, read_entries
from spark_job.immutable import ReadOnce
from spark_job.key_index.root import read_root

_READERS = 8


@dataclass(frozen=True, slots=True)
class Entries:
    """The files that a manifest has, and those that it says its snapshot took away."""

    live: frozenset[str]
    removed: frozenset[str]


_lists: ReadOnce[list[ManifestFile]] = ReadOnce(256)
_entries: ReadOnce[Entries] = ReadOnce(256)
_indexes: ReadOnce[frozenset[str]] = ReadOnce(256)


def manifests_of(io: FileIO, snapshots: Iterable[Snapshot]) -> dict[int, list[ManifestFile]]:
    """The manifests of each snapshot."""

    def read(snapshot: Snapshot) -> tuple[int, list[ManifestFile]]:
        path = snapshot.manifest_list
        return snapshot.snapshot_id, _lists.get(path, partial(list_manifests, io, path))

    with ThreadPoolExecutor(_READERS) as pool:
        return dict(pool.map(read, snapshots))


def entries_of(io: FileIO, manifests: Sequence[ManifestFile]) -> list[Entries]:
    """The files that each manifest names."""
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(lambda one: _entries.get(one.manifest_path, partial(_read, io, one)), manifests))


def live_paths(io: FileIO, manifests: Iterable[ManifestFile], *contents: ManifestContent) -> set[str]:
    """The data or delete files in some manifests; of both kinds if none is named."""
    wanted = {one.manifest_path: one for one in manifests if not contents or one.content in contents}
    return {path for entries in entries_of(io, list(wanted.values())) for path in entries.live}


def index_files(io: FileIO, snapshots: Iterable[Snapshot], *others: str) -> set[str]:
    """The index roots of snapshots and some others, and the segments that they name."""
    roots = {path for snapshot in snapshots if (path := root_of(snapshot))}.union(others)
    with ThreadPoolExecutor(_READERS) as pool:
        found = pool.map(lambda path: _indexes.get(path, partial(_read_index, io, path)), roots)
        return roots.union(*found)


def root_of(snapshot: Snapshot) -> str | None:
    """The index root that a snapshot was committed with."""
    return snapshot.summary.additional_properties.get(INDEX_ROOT) if snapshot.summary else None


def _read(io: FileIO, manifest: ManifestFile) -> Entries:
    live: set[str] = set()
    removed: set[str] = set()
    for entry in read_entries(io, manifest, deleted=True):
        (removed if entry.status is ManifestEntryStatus.DELETED else live).add(entry.data_file.file_path)
    return Entries(frozenset(live), frozenset(removed))


def _read_index(io: FileIO, root: str) -> frozenset[str]:
    return frozenset(segment.path for segment in read_root(io, root).segments)
