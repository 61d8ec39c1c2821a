"""The table property `icemirror.cursor`: it describes icemirror's last snapshot, also after that snapshot expired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from icemirror.tables.cursor import Cursor
from spark_job.iceberg.ancestry import (
    has_files_of_commit,
    has_files_of_commits_between,
    has_files_of_other_commits,
    walk_ancestors,
)
from spark_job.iceberg.property_names import (
    PROPERTY_CURSOR,
    PROPERTY_EPOCH,
    PROPERTY_INDEX_ROOT,
    PROPERTY_LIVE_ROWS,
    PROPERTY_RUN_ID,
    PROPERTY_VERSION,
)
from spark_job.index.root import Root

_FORMAT_VERSION = "1"
_ADDED_FILES = ("added-data-files", "added-delete-files")


class CursorProperty(BaseModel):
    """The content of the property. It repeats the snapshot's summary, because the snapshot may expire.

    `last_file_change_number`: sequence number of the last commit that added or removed files; 0 if the table has no
    files; None if unknown. Stored as `files_number`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    version: Literal[1] = 1
    branch: str = "main"
    snapshot_id: int
    sequence_number: int
    epoch: int
    cursor: Cursor
    last_file_change_number: int | None = Field(
        default=None, validation_alias="files_number", serialization_alias="files_number"
    )


@dataclass(frozen=True)
class CommitProperties:
    """The summary of icemirror's next snapshot, and the table properties that repeat it."""

    summary: dict[str, str]
    properties: dict[str, str]


def commit_properties(
    mirror_table: Table,
    root: Root,
    root_path: str,
    cursor: Cursor,
    run_id: str,
    *,
    changes_files: bool,
    empties_table: bool = False,
) -> CommitProperties:
    """Return summary and properties of the next snapshot, to which the root belongs.

    `changes_files`: it adds or removes files. `empties_table`: it leaves the table without files.
    """
    sequence_number = mirror_table.metadata.next_sequence_number()
    if empties_table:
        last_file_change_number: int | None = 0
    else:
        last_file_change_number = (
            sequence_number if changes_files else _find_last_file_change(mirror_table.metadata)
        )
    cursor_property = CursorProperty(
        snapshot_id=root.snapshot_id,
        sequence_number=sequence_number,
        epoch=root.epoch,
        cursor=cursor,
        last_file_change_number=last_file_change_number,
    )
    summary = {
        PROPERTY_VERSION: _FORMAT_VERSION,
        PROPERTY_RUN_ID: run_id,
        PROPERTY_EPOCH: str(root.epoch),
        PROPERTY_CURSOR: cursor.model_dump_json(),
        PROPERTY_LIVE_ROWS: str(root.live_rows),
        PROPERTY_INDEX_ROOT: root_path,
    }
    properties = {
        PROPERTY_CURSOR: cursor_property.model_dump_json(by_alias=True),
        PROPERTY_INDEX_ROOT: root_path,
    }
    return CommitProperties(summary, properties)


def read_cursor_property(properties: Mapping[str, str]) -> CursorProperty | None:
    """Parse the property; None if it is missing or unreadable."""
    try:
        return CursorProperty.model_validate_json(properties.get(PROPERTY_CURSOR, ""))
    except ValidationError:
        return None


def last_epoch(metadata: TableMetadata) -> int:
    """Return the greatest epoch of all snapshots and of the cursor property."""
    cursor_property = read_cursor_property(metadata.properties)
    summaries = (
        snapshot.summary.additional_properties for snapshot in metadata.snapshots if snapshot.summary
    )
    epochs = [summary[PROPERTY_EPOCH] for summary in summaries if summary.get(PROPERTY_EPOCH, "").isdecimal()]
    return max([cursor_property.epoch if cursor_property else 0, *map(int, epochs)])


def is_expired_parent(
    io: FileIO, cursor_property: CursorProperty, snapshot: Snapshot, snapshots: Sequence[Snapshot]
) -> bool:
    """Return whether the property describes the expired parent of `snapshot`. `snapshots`: all that the table has."""
    if any(retained.snapshot_id == cursor_property.snapshot_id for retained in snapshots):
        return False
    if snapshot.parent_snapshot_id is not None:
        return snapshot.parent_snapshot_id == cursor_property.snapshot_id
    # PyIceberg removes the parent id when the parent expires, and only then. Two checks replace it:
    # 1. Sequence numbers have no gap: no other snapshot expired in between.
    # 2. `snapshot` lists files of the last commit that changed files and of no later commit: it was not committed after
    #    a rollback.
    between = range(cursor_property.sequence_number + 1, snapshot.sequence_number or 0)
    retained_between = {
        retained.sequence_number for retained in snapshots if retained.sequence_number in between
    }
    if (snapshot.sequence_number or 0) <= cursor_property.sequence_number or len(retained_between) < len(
        between
    ):
        return False
    last_file_change_number = (
        cursor_property.sequence_number
        if cursor_property.last_file_change_number is None
        else cursor_property.last_file_change_number
    )
    if not last_file_change_number:  # the table had no files, so `snapshot` has only those that it added
        return not has_files_of_other_commits(io, snapshot)
    return has_files_of_commit(io, snapshot, last_file_change_number) and not has_files_of_commits_between(
        io, snapshot, last_file_change_number, cursor_property.sequence_number
    )


def _find_last_file_change(metadata: TableMetadata) -> int | None:
    """Return the sequence number of the commit that last changed the table's files; 0 if none ever did."""
    cursor_property = read_cursor_property(metadata.properties)
    sequence_number = metadata.next_sequence_number()
    for snapshot in walk_ancestors(metadata.snapshots, metadata.current_snapshot_id):
        if _changed_files(snapshot):
            return snapshot.sequence_number
        if cursor_property is not None and cursor_property.snapshot_id == snapshot.snapshot_id:
            return cursor_property.last_file_change_number
        sequence_number = snapshot.sequence_number or 0
    return 0 if sequence_number == 1 else None


def _changed_files(snapshot: Snapshot) -> bool:
    """Return whether a snapshot changed files. True for every foreign write, whose summary may be wrong."""
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    return PROPERTY_CURSOR not in summary or any(summary.get(name, "0") != "0" for name in _ADDED_FILES)
