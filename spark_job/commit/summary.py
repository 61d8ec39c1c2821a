"""Counts in a snapshot's summary, as Iceberg Java writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyiceberg.manifest import DataFile
from pyiceberg.table.snapshots import SnapshotSummaryCollector

from spark_job.iceberg.live_files import LiveDelete, LiveFile
from spark_job.pyiceberg_private.v3_fields import content_span

_ADDED_VECTORS = "added-dvs"
_REMOVED_VECTORS = "removed-dvs"
_CHANGED_PARTITIONS = "changed-partition-count"


def count_files(
    added: Iterable[DataFile],
    removed_deletes: Sequence[LiveDelete],
    removed_data_files: Sequence[LiveFile] = (),
) -> dict[str, str]:
    """Return the counts of added and removed files, rows and bytes.

    A deletion vector counts with its own bytes, not with those of its file.
    """
    collector = SnapshotSummaryCollector()
    metrics, added_vectors = collector.metrics, 0
    partitions: set[tuple[int, str]] = set()
    for file in added:
        metrics.add_file(file)
        if len(file.partition):
            # By its repr: PyIceberg would use folder names, which days outside of Python's calendar do not have.
            partitions.add((file.spec_id, repr(file.partition)))
        if span := content_span(file):
            added_vectors += 1
            metrics.added_file_size -= file.file_size_in_bytes - span[1]
    removed_vectors = sum(delete.is_vector for delete in removed_deletes)
    metrics.added_pos_delete_files -= added_vectors
    metrics.removed_pos_delete_files = len(removed_deletes) - removed_vectors
    metrics.removed_delete_files = len(removed_deletes)
    metrics.removed_pos_deletes = sum(delete.rows for delete in removed_deletes)
    metrics.removed_data_files = len(removed_data_files)
    metrics.deleted_records = sum(file.rows for file in removed_data_files)
    metrics.removed_file_size = sum(delete.bytes for delete in removed_deletes) + sum(
        file.bytes for file in removed_data_files
    )
    counts = collector.build()
    other_counts = {
        _ADDED_VECTORS: added_vectors,
        _REMOVED_VECTORS: removed_vectors,
        _CHANGED_PARTITIONS: len(partitions),
    }
    counts.update((name, str(count)) for name, count in other_counts.items() if count)
    return counts
