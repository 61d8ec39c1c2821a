"""Where a rebuild goes on when what it was to merge next has expired from the changelog meanwhile.

The oldest snapshot that is left stands for all before it: it lists their files, each with the number of the commit that
added it. Files of later commits than the last that was merged hold all that was not: compacting moves events to later
numbers only. Some events may so be merged once more, which changes nothing where they have keys.
"""

from __future__ import annotations

from dataclasses import replace

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icemirror.cursor import Cursor, Source
from spark_job.iceberg.ancestors import walk_ancestors
from spark_job.iceberg.descent import holds_files_of
from spark_job.iceberg.manifests import known_manifests
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.seams import read_entries


def reanchored(mirror: Mirror, changelog: Table) -> Mirror | None:
    """The mirror with a cursor that the changelog still knows; None where its history may not be the one of before."""
    head = changelog.current_snapshot()
    if mirror.cursor is None or head is None:
        return None
    source = mirror.cursor.source
    *_, oldest = walk_ancestors(changelog.metadata.snapshots, head.snapshot_id)
    if not 0 < source.sequence_number < (oldest.sequence_number or 0):
        return None
    if not holds_files_of(changelog.io, oldest, source.sequence_number):
        return None
    is_whole = source.files_done is None or source.files_done == _files_of(changelog, oldest, source)
    moved = Source(
        uuid=source.uuid,
        snapshot_id=oldest.snapshot_id,
        sequence_number=source.sequence_number + (1 if is_whole else 0),
        files_done=0,
        truncated=source.truncated,
    )
    return replace(mirror, cursor=Cursor(sources=(moved,)))


def _files_of(changelog: Table, snapshot: Snapshot, source: Source) -> int:
    """How many files of the cursor's commit the snapshot lists; those of a part of it are merged once more."""
    return sum(
        entry.sequence_number == source.sequence_number
        for manifest in known_manifests(changelog.io, snapshot)
        if (manifest.min_sequence_number or 0) <= source.sequence_number
        for entry in read_entries(changelog.io, manifest)
    )
