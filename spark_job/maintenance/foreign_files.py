"""Finds the data files that another engine added, and what was merged before each of them."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from icemirror.tables.cursor import Cursor
from spark_job.iceberg.ancestry import walk_ancestors
from spark_job.iceberg.live_files import LiveFile
from spark_job.iceberg.property_names import PROPERTY_CURSOR


def commits_before_foreign_files(metadata: TableMetadata, live: Mapping[str, LiveFile]) -> dict[str, int]:
    """Return path → sequence number of the changelog commit that was merged last when another engine added the file.

    Files whose snapshot has expired are left out: it is unknown who added them.
    """
    commits_by_snapshot: dict[int, int | None] = {}
    for file in live.values():
        if file.added_by is not None and file.added_by not in commits_by_snapshot:
            commits_by_snapshot[file.added_by] = _commit_before(metadata, file.added_by)
    commits = {path: commits_by_snapshot.get(file.added_by or 0) for path, file in live.items()}
    return {path: commit for path, commit in commits.items() if commit is not None}


def _commit_before(metadata: TableMetadata, snapshot_id: int) -> int | None:
    """Return the changelog commit that was merged last before a foreign snapshot; None for icemirror's snapshots."""
    ancestors = list(walk_ancestors(metadata.snapshots, snapshot_id))
    if not ancestors or _cursor_text(ancestors[0]) is not None:
        return None
    cursor_texts = (text for snapshot in ancestors if (text := _cursor_text(snapshot)) is not None)
    try:
        sources = Cursor.model_validate_json(next(cursor_texts, "")).sources
    except ValueError:
        return None
    return sources[0].sequence_number if sources else None


def _cursor_text(snapshot: Snapshot) -> str | None:
    return snapshot.summary.additional_properties.get(PROPERTY_CURSOR) if snapshot.summary else None
