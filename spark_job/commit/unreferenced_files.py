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
class _Witnesses:
    """The retained snapshots to check, and the ids of snapshots whose removals were not undone later."""

    checked: tuple[Snapshot, ...]
    removers: frozenset[int]


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
    witnesses = _choose_witnesses(before, after, removed)
    manifests = manifests_by_snapshot(io, [*removed, *witnesses.checked])
    kept = {
        manifest.manifest_path: manifest
        for snapshot in witnesses.checked
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
        if manifest.deleted_files_count != 0 and manifest.added_snapshot_id in witnesses.removers
    ]
    lists = {each.manifest_list for each in removed} - {each.manifest_list for each in after.snapshots}
    content = _removed_content(io, with_removals, kept.values())
    metadata = lists | dropped.keys() | (_statistics(before) - _statistics(after))
    roots = {path for snapshot in removed if (path := index_root_of(snapshot)) and owned.has_index(path)}
    index = index_files(io, (), *roots) - _retained_index(io, after, witnesses.checked)
    return UnreferencedFiles(
        content=frozenset(filter(owned.has_file, content)),
        metadata=frozenset(filter(owned.has_file, metadata)),
        index=frozenset(filter(owned.has_index, index)),
    )


def _choose_witnesses(before: TableMetadata, after: TableMetadata, removed: Sequence[Snapshot]) -> _Witnesses:
    """Choose the retained snapshots that show which files are still referenced.

    Along one branch, a manifest, file or segment that was removed never returns, unless another writer restores it. So
    if all expired snapshots precede the oldest one on main, that one represents all of icemirror's snapshots after it;
    only those of other writers and of other branches are checked as well. Otherwise all retained snapshots are.
    """
    removed_ids = frozenset(snapshot.snapshot_id for snapshot in removed)
    main = list(walk_ancestors(after.snapshots, main_head(after)))
    if main:
        oldest = main[-1].snapshot_id
        if removed_ids <= {snapshot.snapshot_id for snapshot in walk_ancestors(before.snapshots, oldest)}:
            followers = {snapshot.snapshot_id for snapshot in main[:-1] if index_root_of(snapshot)}
            checked = tuple(each for each in after.snapshots if each.snapshot_id not in followers)
            return _Witnesses(checked, removed_ids | {oldest})
    return _Witnesses(tuple(after.snapshots), removed_ids.union(each.snapshot_id for each in after.snapshots))


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
            for entries in paths_by_manifest(io, [each for each in with_removals if each.content is content])
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
    ours = [snapshot for snapshot in reversed(main) if index_root_of(snapshot)][:1]
    root = after.properties.get(INDEX_ROOT)
    return index_files(io, [*checked, *ours], *([root] if root else []))


def _statistics(metadata: TableMetadata) -> set[str]:
    return {file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)}
