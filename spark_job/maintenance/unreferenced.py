"""What only expired snapshots reach. The cost follows what expired, not the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from spark_job.iceberg.ancestors import walk_ancestors
from spark_job.iceberg.mirror import INDEX_ROOT
from spark_job.iceberg.references import entries_of, index_files, live_paths, manifests_of, root_of
from spark_job.maintenance.own_places import OwnPlaces
from spark_job.maintenance.retention import main_head


@dataclass(frozen=True, slots=True)
class Unreferenced:
    """Files that no retained snapshot reaches any more, by kind."""

    content: frozenset[str] = frozenset()
    metadata: frozenset[str] = frozenset()
    index: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.content) + len(self.metadata) + len(self.index)


@dataclass(frozen=True, slots=True)
class _Witnesses:
    """The retained snapshots to ask, and those that are known to have taken away what nobody brought back."""

    asked: tuple[Snapshot, ...]
    takers: frozenset[int]


def find_unreferenced(
    io: FileIO, before: TableMetadata, after: TableMetadata, expired: Sequence[Snapshot], own: OwnPlaces
) -> Unreferenced:
    """What the commit that led from `before` to `after` set free, of the table's own: anybody may name other files."""
    if not expired:
        return Unreferenced()
    retained = {snapshot.snapshot_id for snapshot in after.snapshots}
    gone = [snapshot for snapshot in expired if snapshot.snapshot_id not in retained]
    if not gone:
        return Unreferenced()
    witnesses = _choose_witnesses(before, after, gone)
    manifests = manifests_of(io, [*gone, *witnesses.asked])
    kept = {one.manifest_path: one for snapshot in witnesses.asked for one in manifests[snapshot.snapshot_id]}
    dropped = {
        one.manifest_path: one
        for snapshot in gone
        for one in manifests[snapshot.snapshot_id]
        if one.manifest_path not in kept
    }
    every = [*dropped.values(), *kept.values()]
    taking = [
        one for one in every if one.deleted_files_count != 0 and one.added_snapshot_id in witnesses.takers
    ]
    lists = {snapshot.manifest_list for snapshot in gone} - {one.manifest_list for one in after.snapshots}
    content = _taken_away(io, taking, kept.values())
    metadata = lists | dropped.keys() | (_statistics(before) - _statistics(after))
    roots = {path for snapshot in gone if (path := root_of(snapshot)) and own.has_index(path)}
    index = index_files(io, (), *roots) - _retained_index(io, after, witnesses.asked)
    return Unreferenced(
        content=frozenset(filter(own.has_file, content)),
        metadata=frozenset(filter(own.has_file, metadata)),
        index=frozenset(filter(own.has_index, index)),
    )


def _choose_witnesses(before: TableMetadata, after: TableMetadata, gone: Sequence[Snapshot]) -> _Witnesses:
    """Along one line of history a manifest, file or segment that has left never comes back, unless another writer
    puts it back.

    So where all that expired lies behind the oldest snapshot of main, that one speaks for all of ours that follow it,
    and only snapshots of others and off the line are asked besides. Else every retained snapshot is asked.
    """
    gone_ids = frozenset(snapshot.snapshot_id for snapshot in gone)
    line = list(walk_ancestors(after.snapshots, main_head(after)))
    if line:
        oldest = line[-1].snapshot_id
        if gone_ids <= {snapshot.snapshot_id for snapshot in walk_ancestors(before.snapshots, oldest)}:
            followers = {snapshot.snapshot_id for snapshot in line[:-1] if root_of(snapshot)}
            asked = tuple(one for one in after.snapshots if one.snapshot_id not in followers)
            return _Witnesses(asked, gone_ids | {oldest})
    return _Witnesses(tuple(after.snapshots), gone_ids.union(one.snapshot_id for one in after.snapshots))


def _taken_away(io: FileIO, taking: Sequence[ManifestFile], kept: Iterable[ManifestFile]) -> set[str]:
    """Data and delete files that a snapshot took away and no witness has.

    Deletion vectors share a file: one may be taken away while another is still read from there.
    """
    free: set[str] = set()
    for content in ManifestContent:
        removed = {
            path
            for entries in entries_of(io, [one for one in taking if one.content is content])
            for path in entries.removed
        }
        if removed:
            free |= removed - live_paths(io, kept, content)
    return free


def _retained_index(io: FileIO, after: TableMetadata, asked: Sequence[Snapshot]) -> set[str]:
    """What the index of witnesses needs. Snapshots of other writers have none: the next of ours speaks for them."""
    line = list(walk_ancestors(after.snapshots, main_head(after)))
    ours = [snapshot for snapshot in reversed(line) if root_of(snapshot)][:1]
    root = after.properties.get(INDEX_ROOT)
    return index_files(io, [*asked, *ours], *([root] if root else []))


def _statistics(metadata: TableMetadata) -> set[str]:
    return {file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)}
