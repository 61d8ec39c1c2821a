"""Which files belong to a stage, and which of them nobody needs once it has been swapped in."""

from __future__ import annotations

from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from spark_job.iceberg.references import index_files, live_paths, manifests_of
from spark_job.key_index.root import segment_paths
from spark_job.staging.stage import Stage


def left_over(io: FileIO, stage: Stage, root_path: str) -> set[str]:
    """All that the stage ever wrote, but for what its head needs: files, and segments of the root that took it over."""
    metadata = stage.table.metadata
    head = metadata.current_snapshot()
    kept = set(segment_paths(io, root_path))
    if head is not None:
        kept |= live_paths(io, manifests_of(io, [head])[head.snapshot_id])
    own = {path for path in (stage.path, stage.before) if path}
    return (named_by(io, metadata) | own) - kept


def named_by(io: FileIO, metadata: TableMetadata) -> set[str]:
    """All files that the history of a stage names."""
    manifests = manifests_of(io, metadata.snapshots)
    every = {one.manifest_path: one for group in manifests.values() for one in group}
    lists = {snapshot.manifest_list for snapshot in metadata.snapshots}
    return lists | every.keys() | live_paths(io, every.values()) | index_files(io, metadata.snapshots)
