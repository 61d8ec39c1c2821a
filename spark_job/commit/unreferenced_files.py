"""Find files that only expired snapshots reference. The cost depends on what expired, not on the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from spark_job.commit.owned_locations import OwnedLocations
from spark_job.commit.retention import main_head
from spark_job.iceberg.ancestry import walk_ancestors
from spark_job.iceberg.mirror import INDEX_ROOT
from spark_job.iceberg.references import (
    index_files,
    index_root_of,
    live_paths,
    manifests_by_snapshot,
    paths_by_manifest,
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
    """The retained snapshots to check. `removed_by`: ids of snapshots whose removals were not undone later."""

    snapshots: tuple[Snapshot, ...]
    removed_by: frozenset[int]


def find_unreferenced(
    io: FileIO,
    before: TableMetadata,
    after: TableMetadata,
    expired: Sequence[Snapshot],
    owned: OwnedLocations,
) -> UnreferencedFiles:
    """Return the owned files that the commit from `before` to `after` left unreferenced.

    Files elsewhere are skipped: the metadata may reference those of other tables.
    """
    if not expired:
        return UnreferencedFiles()
    retained = {snapshot.snapshot_id for snapshot in after.snapshots}
    removed = [snapshot for snapshot in expired if snapshot.snapshot_id not in retained]
    if not removed:
        return UnreferencedFiles()
    checked = _choose_checked_snapshots(before, after, removed)
    manifests = manifests_by_snapshot(io, [*removed, *checked.snapshots])
    kept = {
        manifest.manifest_path: manifest
        for snapshot in checked.snapshots
        for manifest in manifests[snapshot.snapshot_id]
    }
    dropped = {
        manifest.manifest_path: manifest
        for snapshot in removed
        for manifest in manifests[snapshot.snapshot_id]
        if manifest.manifest_path not in kept
    }
    with_removals = [
        manifest
        for manifest in (*dropped.values(), *kept.values())
        if manifest.deleted_files_count != 0 and manifest.added_snapshot_id in checked.removed_by
    ]
    lists = {snapshot.manifest_list for snapshot in removed} - {
        snapshot.manifest_list for snapshot in after.snapshots
    }
    content = _removed_content(io, with_removals, kept.values())
    metadata = lists | dropped.keys() | (_statistics(before) - _statistics(after))
    roots = {path for snapshot in removed if (path := index_root_of(snapshot)) and owned.has_index(path)}
    index = index_files(io, (), *roots) - _retained_index(io, after, checked.snapshots)
    return UnreferencedFiles(
        content=frozenset(filter(owned.has_file, content)),
        metadata=frozenset(filter(owned.has_file, metadata)),
        index=frozenset(filter(owned.has_index, index)),
    )


def _choose_checked_snapshots(
    before: TableMetadata, after: TableMetadata, removed: Sequence[Snapshot]
) -> _CheckedSnapshots:
    """Choose the retained snapshots that show which files are still referenced.

    Along one branch, a removed file never returns unless another writer restores it. If all expired snapshots precede
    the oldest one on main, that snapshot represents icemirror's later ones. Then only it, foreign writes and other
    branches are checked; otherwise all retained snapshots.
    """
    removed_ids = frozenset(snapshot.snapshot_id for snapshot in removed)
    main = list(walk_ancestors(after.snapshots, main_head(after)))
    if main:
        oldest = main[-1].snapshot_id
        if removed_ids <= {snapshot.snapshot_id for snapshot in walk_ancestors(before.snapshots, oldest)}:
            represented_ids = {snapshot.snapshot_id for snapshot in main[:-1] if index_root_of(snapshot)}
            checked = tuple(
                snapshot for snapshot in after.snapshots if snapshot.snapshot_id not in represented_ids
            )
            return _CheckedSnapshots(checked, removed_ids | {oldest})
    return _CheckedSnapshots(
        tuple(after.snapshots), removed_ids.union(snapshot.snapshot_id for snapshot in after.snapshots)
    )


def _removed_content(
    io: FileIO, with_removals: Sequence[ManifestFile], kept: Iterable[ManifestFile]
) -> set[str]:
    """Return data and delete files that a snapshot removed and no kept manifest lists.

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
            unreferenced |= removed - live_paths(io, kept, content)
    return unreferenced


def _retained_index(io: FileIO, after: TableMetadata, checked: Sequence[Snapshot]) -> set[str]:
    """Return the index files of the checked snapshots.

    Snapshots of other writers have no index; icemirror's oldest snapshot on main represents them.
    """
    main = list(walk_ancestors(after.snapshots, main_head(after)))
    own_snapshots = [snapshot for snapshot in reversed(main) if index_root_of(snapshot)][:1]
    root = after.properties.get(INDEX_ROOT)
    return index_files(io, [*checked, *own_snapshots], *([root] if root else []))


def _statistics(metadata: TableMetadata) -> set[str]:
    return {file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)}
