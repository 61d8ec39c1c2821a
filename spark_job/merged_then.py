"""How much of the changelog was merged when another writer added a data file."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from icemirror.cursor import Cursor
from spark_job.iceberg.mirror import CURSOR
from spark_job.iceberg.view import LiveFile


def merged_then(metadata: TableMetadata, live: Mapping[str, LiveFile]) -> dict[str, int]:
    """The changelog's commit up to which was merged, for the files of others. Pure.

    Files that icemirror added have none, nor have those whose snapshot has expired: nobody knows of them any more.
    """
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    known: dict[int, int | None] = {}
    for file in live.values():
        if file.added_by is not None and file.added_by not in known:
            known[file.added_by] = _commit_before(by_id, by_id.get(file.added_by))
    numbers = {path: known.get(file.added_by or 0) for path, file in live.items()}
    return {path: number for path, number in numbers.items() if number is not None}


def _commit_before(by_id: Mapping[int, Snapshot], at: Snapshot | None) -> int | None:
    if at is None or _cursor(at) is not None:
        return None
    while at is not None and _cursor(at) is None:
        at = by_id.get(at.parent_snapshot_id or 0)
    try:
        sources = Cursor.model_validate_json(_cursor(at) or "" if at is not None else "").sources
    except ValueError:
        return None
    return sources[0].sequence_number if sources else None


def _cursor(snapshot: Snapshot) -> str | None:
    return snapshot.summary.additional_properties.get(CURSOR) if snapshot.summary else None
