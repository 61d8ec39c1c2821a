"""Find files that only expired snapshots reference. The cost depends on what expired, not on the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from spark_job.commit.expire.owned_locations import OwnedLocations
from spark_job.commit.expire.retention import main_head
from spark_job.iceberg.ancestry import walk_ancestors
from spark_job.iceberg.property_names import PROPERTY_INDEX_ROOT
from spark_job.iceberg.references import (
    index_files,
    live_paths,
    manifests_by_snapshot,
    paths_by_manifest,
    read_index_root_path,
)


@dataclass(frozen=True, slots=True)
class UnreferencedFiles:
    """Files that no retained snapshot references, by kind."""

    content: frozenset[str] = frozenset()
    metadata: frozenset[str] = frozenset()
    index: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.content) + len(self.metadata) + len(self.index)


@dataclass(frozen=True, slots=True)
class _CheckedSnapshots:
    """The retained snapshots to check.

    `removed_by`: ids of snapshots whose removed files are unreferenced unless a checked snapshot lists them.
    """

    snapshots: tuple[Snapshot, ...]
    removed_by: frozenset[int]


def find_unreferenced(
    io: FileIO,
    old_metadata: TableMetadata,
    new_metadata: TableMetadata,
    expired: Sequence[Snapshot],
    owned: OwnedLocations,
) -> UnreferencedFiles:
    """Return the owned files that the commit from `old_metadata` to `new_metadata` left unreferenced.

    Files elsewhere are skipped: the metadata may reference those of other tables.
    """
    if not expired:
        return UnreferencedFiles()
    retained = {snapshot.snapshot_id for snapshot in new_metadata.snapshots}
    removed = [snapshot for snapshot in expired if snapshot.snapshot_id not in retained]
    if not removed:
        return UnreferencedFiles()
    checked = _choose_checked_snapshots(old_metadata, new_metadata, removed)
    manifests = manifests_by_snapshot(io, [*removed, *checked.snapshots])
    retained_manifests = {
        manifest.manifest_path: manifest
        for snapshot in checked.snapshots
        for manifest in manifests[snapshot.snapshot_id]
    }
    dropped_manifests = {
        manifest.manifest_path: manifest
        for snapshot in removed
        for manifest in manifests[snapshot.snapshot_id]
        if manifest.manifest_path not in retained_manifests
    }
    with_removals = [
        manifest
        for manifest in (*dropped_manifests.values(), *retained_manifests.values())
        if manifest.deleted_files_count != 0 and manifest.added_snapshot_id in checked.removed_by
    ]
    manifest_lists = {snapshot.manifest_list for snapshot in removed} - {
        snapshot.manifest_list for snapshot in new_metadata.snapshots
    }
    statistics = _statistics_files(old_metadata) - _statistics_files(new_metadata)
    content = _removed_content(io, with_removals, retained_manifests.values())
    metadata = manifest_lists | dropped_manifests.keys() | statistics
    roots = {
        path for snapshot in removed if (path := read_index_root_path(snapshot)) and owned.has_index(path)
    }
    index = index_files(io, (), *roots) - _retained_index(io, new_metadata, checked.snapshots)
    return UnreferencedFiles(
        content=frozenset(filter(owned.has_file, content)),
        metadata=frozenset(filter(owned.has_file, metadata)),
        index=frozenset(filter(owned.has_index, index)),
    )


def _choose_checked_snapshots(
    old_metadata: TableMetadata, new_metadata: TableMetadata, removed: Sequence[Snapshot]
) -> _CheckedSnapshots:
    """Choose the retained snapshots that show which files are still referenced.

    On one branch a removed file stays removed unless another engine restores it. If all expired snapshots are older
    than main's oldest retained snapshot, that one stands for icemirror's later snapshots. Then only it, foreign writes
    and other branches are checked; otherwise all retained snapshots.
    """
    removed_ids = frozenset(snapshot.snapshot_id for snapshot in removed)
    main = list(walk_ancestors(new_metadata.snapshots, main_head(new_metadata)))
    if main:
        oldest_id = main[-1].snapshot_id
        if removed_ids <= {
            snapshot.snapshot_id for snapshot in walk_ancestors(old_metadata.snapshots, oldest_id)
        }:
            represented_ids = {
                snapshot.snapshot_id for snapshot in main[:-1] if read_index_root_path(snapshot)
            }
            checked = tuple(
                snapshot for snapshot in new_metadata.snapshots if snapshot.snapshot_id not in represented_ids
            )
            return _CheckedSnapshots(checked, removed_ids | {oldest_id})
    return _CheckedSnapshots(
        tuple(new_metadata.snapshots),
        removed_ids.union(snapshot.snapshot_id for snapshot in new_metadata.snapshots),
    )


def _removed_content(
    io: FileIO, with_removals: Sequence[ManifestFile], retained: Iterable[ManifestFile]
) -> set[str]:
    """Return data and delete files that a snapshot removed and no retained manifest lists.

    Deletion vectors share a file: one may be removed while another in the same file is still read.
    """
    unreferenced: set[str] = set()
    for content in ManifestContent:
        removed = {
            path
            for entries in paths_by_manifest(
                io, [manifest for manifest in with_removals if manifest.content is content]
            )
            for path in entries.removed
        }
        if removed:
            unreferenced |= removed - live_paths(io, retained, content)
    return unreferenced


def _retained_index(io: FileIO, new_metadata: TableMetadata, checked: Sequence[Snapshot]) -> set[str]:
    """Return the index files of the checked snapshots.

    Snapshots of other writers have no index; icemirror's oldest snapshot on main represents them.
    """
    main = list(walk_ancestors(new_metadata.snapshots, main_head(new_metadata)))
    own_snapshots = [snapshot for snapshot in reversed(main) if read_index_root_path(snapshot)][:1]
    root = new_metadata.properties.get(PROPERTY_INDEX_ROOT)
    return index_files(io, [*checked, *own_snapshots], *([root] if root else []))


def _statistics_files(metadata: TableMetadata) -> set[str]:
    return {file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)}
