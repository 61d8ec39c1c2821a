"""The files that snapshots and stages reference: manifests, data and delete files, and index files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from spark_job.iceberg.manifests import load_manifests
from spark_job.iceberg.mirror import CURSOR, INDEX_ROOT
from spark_job.index.root import segment_paths
from spark_job.pyiceberg_private.manifest_files import read_manifest_entries
from spark_job.storage.immutable_cache import FileCache
from spark_job.storage.parallel import map_parallel

_MAX_CACHED_FILES = 200_000


@dataclass(frozen=True, slots=True)
class ManifestPaths:
    """The files that a manifest lists: live ones, and those that its snapshot removed."""

    live: frozenset[str]
    removed: frozenset[str]


_entries: FileCache[ManifestPaths] = FileCache(
    _MAX_CACHED_FILES, lambda named: 1 + len(named.live) + len(named.removed)
)


def manifests_by_snapshot(io: FileIO, snapshots: Sequence[Snapshot]) -> dict[int, tuple[ManifestFile, ...]]:
    """Return snapshot id → manifests."""
    found = map_parallel(
        partial(load_manifests, io), snapshots, snapshots[0].manifest_list if snapshots else ""
    )
    return {snapshot.snapshot_id: manifests for snapshot, manifests in zip(snapshots, found, strict=True)}


def paths_by_manifest(io: FileIO, manifests: Sequence[ManifestFile]) -> list[ManifestPaths]:
    """Return the files of each manifest."""
    return map_parallel(
        lambda manifest: _entries.get(manifest.manifest_path, partial(_read, io, manifest)),
        manifests,
        manifests[0].manifest_path if manifests else "",
    )


def live_paths(io: FileIO, manifests: Iterable[ManifestFile], *contents: ManifestContent) -> set[str]:
    """Return the live files of these manifests, of these contents (default: data and deletes)."""
    wanted = {
        manifest.manifest_path: manifest
        for manifest in manifests
        if not contents or manifest.content in contents
    }
    return {path for entries in paths_by_manifest(io, list(wanted.values())) for path in entries.live}


def index_files(io: FileIO, snapshots: Iterable[Snapshot], *others: str) -> set[str]:
    """Return the index roots of snapshots and `others`, and the segments of these roots."""
    roots = {path for snapshot in snapshots if (path := index_root_of(snapshot))}.union(others)
    return roots.union(*map_parallel(partial(segment_paths, io), list(roots), next(iter(roots), "")))


def index_root_of(snapshot: Snapshot) -> str | None:
    """Return the index root of a snapshot that icemirror committed; None for a foreign write."""
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    return summary.get(INDEX_ROOT) if CURSOR in summary else None


def _read(io: FileIO, manifest: ManifestFile) -> ManifestPaths:
    live: set[str] = set()
    removed: set[str] = set()
    for entry in read_manifest_entries(io, manifest, deleted=True):
        (removed if entry.status is ManifestEntryStatus.DELETED else live).add(entry.data_file.file_path)
    return ManifestPaths(frozenset(live), frozenset(removed))


def files_of_history(io: FileIO, metadata: TableMetadata) -> set[str]:
    """Return all files that the snapshots of a stage reference."""
    manifests = manifests_by_snapshot(io, metadata.snapshots)
    manifests_by_path = {
        manifest.manifest_path: manifest for group in manifests.values() for manifest in group
    }
    lists = {snapshot.manifest_list for snapshot in metadata.snapshots}
    return (
        lists
        | manifests_by_path.keys()
        | live_paths(io, manifests_by_path.values())
        | index_files(io, metadata.snapshots)
    )
