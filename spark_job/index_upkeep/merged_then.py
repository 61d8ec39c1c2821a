"""How much of the changelog was merged when a data file came that may hold rows of other writers."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from icemirror.cursor import Cursor
from spark_job.iceberg.ancestors import walk_ancestors
from spark_job.iceberg.mirror import CURSOR
from spark_job.iceberg.view import LiveFile


def merged_then(metadata: TableMetadata, live: Mapping[str, LiveFile]) -> dict[str, int]:
    """The changelog's commit up to which was merged, for files of others. Pure.

    Our own have none, nor have those whose snapshot has expired: nobody knows of them any more.
    """
    known: dict[int, int | None] = {}
    for file in live.values():
        if file.added_by is not None and file.added_by not in known:
            known[file.added_by] = _commit_before(metadata, file.added_by)
    numbers = {path: known.get(file.added_by or 0) for path, file in live.items()}
    return {path: number for path, number in numbers.items() if number is not None}


def _commit_before(metadata: TableMetadata, added_by: int) -> int | None:
    line = list(walk_ancestors(metadata.snapshots, added_by))
    if not line or _cursor(line[0]) is not None:
        return None
    try:
        before = next((text for one in line if (text := _cursor(one)) is not None), "")
        sources = Cursor.model_validate_json(before).sources
    except ValueError:
        return None
    return sources[0].sequence_number if sources else None


def _cursor(snapshot: Snapshot) -> str | None:
    return snapshot.summary.additional_properties.get(CURSOR) if snapshot.summary else None
