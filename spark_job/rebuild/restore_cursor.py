"""Finds where a rebuild continues after the snapshot of its cursor expired from the changelog.

The oldest retained snapshot lists the files of all commits before it, each with the sequence number of its commit.
Files of later commits than the cursor's hold everything that was not merged: compaction moves events to later numbers
only. Some events may be merged twice, which changes nothing if they have keys.
"""

from __future__ import annotations

from dataclasses import replace

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icemirror.tables.cursor import Cursor, CursorSource
from spark_job.iceberg.ancestry import has_files_of_commit, walk_ancestors
from spark_job.iceberg.manifests import load_manifests
from spark_job.iceberg.mirror import Mirror
from spark_job.pyiceberg_private.manifest_files import read_manifest_entries


def restore_expired_cursor(mirror: Mirror, changelog: Table) -> Mirror | None:
    """Return the mirror with a cursor that the changelog still contains; None if its history may be another one."""
    head = changelog.current_snapshot()
    if mirror.cursor is None or head is None:
        return None
    source = mirror.cursor.source
    *_, oldest = walk_ancestors(changelog.metadata.snapshots, head.snapshot_id)
    if not 0 < source.sequence_number < (oldest.sequence_number or 0):
        return None
    if not has_files_of_commit(changelog.io, oldest, source.sequence_number):
        return None
    is_whole = source.files_done is None or source.files_done == _count_files_of_commit(
        changelog, oldest, source
    )
    restored = CursorSource(
        uuid=source.uuid,
        snapshot_id=oldest.snapshot_id,
        sequence_number=source.sequence_number + (1 if is_whole else 0),
        files_done=0,
        truncated=source.truncated,
    )
    return replace(mirror, cursor=Cursor(sources=(restored,)))


def _count_files_of_commit(changelog: Table, snapshot: Snapshot, source: CursorSource) -> int:
    """Return how many files of the cursor's commit the snapshot lists."""
    return sum(
        entry.sequence_number == source.sequence_number
        for manifest in load_manifests(changelog.io, snapshot)
        if (manifest.min_sequence_number or 0) <= source.sequence_number
        for entry in read_manifest_entries(changelog.io, manifest)
    )
