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
from spark_job.iceberg.property_names import PROPERTY_CURSOR, PROPERTY_INDEX_ROOT
from spark_job.index.root import segment_paths
from spark_job.pyiceberg_private.manifest_files import read_manifest_entries
from spark_job.storage.file_cache import FileCache
from spark_job.storage.parallel import map_parallel

_MAX_CACHED_FILES = 200_000


@dataclass(frozen=True, slots=True)
class ManifestPaths:
    """The files that a manifest lists: live ones, and those that its snapshot removed."""

    live: frozenset[str]
    removed: frozenset[str]


_paths: FileCache[ManifestPaths] = FileCache(
    _MAX_CACHED_FILES, lambda paths: 1 + len(paths.live) + len(paths.removed)
)


def manifests_by_snapshot(io: FileIO, snapshots: Sequence[Snapshot]) -> dict[int, tuple[ManifestFile, ...]]:
    """Return snapshot id → manifests."""
    manifest_lists = map_parallel(
        partial(load_manifests, io), snapshots, snapshots[0].manifest_list if snapshots else ""
    )
    return {
        snapshot.snapshot_id: manifests for snapshot, manifests in zip(snapshots, manifest_lists, strict=True)
    }


def paths_by_manifest(io: FileIO, manifests: Sequence[ManifestFile]) -> list[ManifestPaths]:
    """Return the files of each manifest."""
    return map_parallel(
        lambda manifest: _paths.get(manifest.manifest_path, partial(_read_paths, io, manifest)),
        manifests,
        manifests[0].manifest_path if manifests else "",
    )


def live_paths(io: FileIO, manifests: Iterable[ManifestFile], *contents: ManifestContent) -> set[str]:
    """Return the live files of these manifests, of these contents (default: data and deletes)."""
    manifests_by_path = {
        manifest.manifest_path: manifest
        for manifest in manifests
        if not contents or manifest.content in contents
    }
    return {path for paths in paths_by_manifest(io, list(manifests_by_path.values())) for path in paths.live}


def index_files(io: FileIO, snapshots: Iterable[Snapshot], *more_roots: str) -> set[str]:
    """Return the index roots of snapshots and `more_roots`, and the segments of these roots."""
    roots = {path for snapshot in snapshots if (path := read_index_root_path(snapshot))}.union(more_roots)
    return roots.union(*map_parallel(partial(segment_paths, io), list(roots), next(iter(roots), "")))


def read_index_root_path(snapshot: Snapshot) -> str | None:
    """Return the path of the index root of a snapshot that icemirror committed; None for a foreign write."""
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    return summary.get(PROPERTY_INDEX_ROOT) if PROPERTY_CURSOR in summary else None


def _read_paths(io: FileIO, manifest: ManifestFile) -> ManifestPaths:
    live: set[str] = set()
    removed: set[str] = set()
    for entry in read_manifest_entries(io, manifest, deleted=True):
        (removed if entry.status is ManifestEntryStatus.DELETED else live).add(entry.data_file.file_path)
    return ManifestPaths(frozenset(live), frozenset(removed))


def find_referenced_files(io: FileIO, metadata: TableMetadata) -> set[str]:
    """Return all files that the snapshots reference: enough for a stage, which has no other metadata files."""
    manifests = manifests_by_snapshot(io, metadata.snapshots)
    manifests_by_path = {
        manifest.manifest_path: manifest for group in manifests.values() for manifest in group
    }
    manifest_lists = {snapshot.manifest_list for snapshot in metadata.snapshots}
    return (
        manifest_lists
        | manifests_by_path.keys()
        | live_paths(io, manifests_by_path.values())
        | index_files(io, metadata.snapshots)
    )
