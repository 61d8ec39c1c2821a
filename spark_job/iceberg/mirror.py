"""Reads a mirror: its table, its cursor, and the index root that belongs to its head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from icemirror.errors import REBUILD, RECREATE, Corrupt, Invalid
from icemirror.tables.cursor import Cursor
from icemirror.telemetry.logs import get_log
from spark_job.columns.field_map import FieldMap, load_field_map, renumber
from spark_job.iceberg.ancestry import (
    has_files_of_commit,
    has_files_of_commits_between,
    has_files_of_other_commits,
    walk_ancestors,
)
from spark_job.index.root import Root, read_root
from spark_job.storage.immutable_cache import FileCache

_VERSION = "icemirror.version"
RUN_ID = "icemirror.run-id"
EPOCH = "icemirror.epoch"
CURSOR = "icemirror.cursor"
LIVE_ROWS = "icemirror.live-rows"
INDEX_ROOT = "icemirror.index-root"
FIELD_MAP = "icemirror.field-map"
SOURCE = "icemirror.source"
REJECTED = "icemirror.rejected"
REPLAY = "icemirror.replay"  # id of the request that a snapshot belongs to
REBUILDS = "icemirror.rebuilds"  # request ids of the last rebuilds
FORMER_SOURCES = "icemirror.former-sources"  # uuids of changelogs that were followed earlier
_FORMAT_VERSION = "1"
_ADDED_FILES = ("added-data-files", "added-delete-files")

_roots: FileCache[Root] = FileCache(200_000, lambda root: 1 + len(root.files) + len(root.segments))

log = get_log(__name__)


class CursorProperty(BaseModel):
    """The table property `icemirror.cursor`. It repeats the snapshot's summary, because the snapshot may expire.

    `files_number`: sequence number of the commit that last changed the table's files: this one, or an earlier one if
    this one changed none. 0: the table has no files, because it never had any or lost all at once. None: unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    branch: str = "main"
    snapshot_id: int
    sequence_number: int
    epoch: int
    cursor: Cursor
    files_number: int | None = None


@dataclass(frozen=True)
class CommitProperties:
    """The summary of icemirror's next snapshot, and the table properties that repeat it."""

    summary: dict[str, str]
    properties: dict[str, str]


def commit_properties(
    table: Table,
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
    number = table.metadata.next_sequence_number()
    cursor_property = CursorProperty(
        snapshot_id=root.snapshot_id,
        sequence_number=number,
        epoch=root.epoch,
        cursor=cursor,
        files_number=0 if empties_table else number if changes_files else _files_number(table.metadata),
    )
    summary = {
        _VERSION: _FORMAT_VERSION,
        RUN_ID: run_id,
        EPOCH: str(root.epoch),
        CURSOR: cursor.model_dump_json(),
        LIVE_ROWS: str(root.live_rows),
        INDEX_ROOT: root_path,
    }
    return CommitProperties(summary, {CURSOR: cursor_property.model_dump_json(), INDEX_ROOT: root_path})


@dataclass(frozen=True)
class Mirror:
    """The state that the next merge builds on. `head`: the snapshot on which keys are located; commits are fenced
    on it.

    - `icemirror_snapshot_id`: icemirror's last snapshot, to which `root` and `cursor` belong.
    - `has_foreign_writes`: foreign writes follow that snapshot.
    - `root_unreadable`: the root at `root_path` cannot be read, so the whole index must be rebuilt.
    - `former_changelogs`: uuids of changelogs that the mirror followed earlier.
    """

    table: Table
    head: Snapshot | None
    cursor: Cursor | None
    epoch: int
    root: Root | None
    field_map: FieldMap
    has_foreign_writes: bool = False
    root_unreadable: bool = False
    icemirror_snapshot_id: int | None = None
    root_path: str | None = None
    former_changelogs: frozenset[str] = frozenset()

    @property
    def live_rows(self) -> int:
        """Rows that a reader sees; if the root cannot be read, those of icemirror's last snapshot."""
        if self.root is not None:
            return self.root.live_rows
        metadata, snapshot_id = self.table.metadata, self.icemirror_snapshot_id
        snapshot = metadata.snapshot_by_id(snapshot_id) if snapshot_id else None
        summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
        return int(summary.get(LIVE_ROWS, "0"))

    @property
    def row_schema(self) -> Schema:
        """The columns that come from the changelog, without those that the mirror adds."""
        schema, mapped = self.table.schema(), set(self.field_map.values())
        fields = [field for field in schema.fields if field.field_id in mapped]
        return Schema(*fields) if len(fields) < len(schema.fields) else schema

    @property
    def has_foreign_row_changes(self) -> bool:
        """Whether a foreign write did more than move the same rows to other files."""
        ancestors = walk_ancestors(
            self.table.metadata.snapshots, self.head.snapshot_id if self.head else None
        )
        foreign_writes = takewhile(
            lambda snapshot: snapshot.snapshot_id != self.icemirror_snapshot_id, ancestors
        )
        return any(
            not snapshot.summary or snapshot.summary.operation is not Operation.REPLACE
            for snapshot in foreign_writes
        )

    @property
    def index_bytes(self) -> int:
        """Size of the key index in bytes."""
        return self.root.bytes if self.root else 0


def read_mirror(table: Table, name: str) -> Mirror:
    """Read a mirror. Raise `Invalid` if the table is not one."""
    properties = table.metadata.properties
    if SOURCE not in properties:
        raise Invalid(
            f"{name}: the table exists, but icemirror did not create it. Drop it, or choose another mirror_table, "
            "so that none of your data is overwritten; or make it the mirror with `icemirror adopt`."
        )
    field_map = _read_map(properties, name)
    cursor_property = _read_cursor_property(properties)
    former_changelogs = frozenset(properties.get(FORMER_SOURCES, "").split())
    head = table.current_snapshot()
    if head is None:
        assigned = renumber(field_map, table.schema())
        return Mirror(
            table,
            None,
            None,
            cursor_property.epoch if cursor_property else 0,
            None,
            assigned,
            former_changelogs=former_changelogs,
        )
    last_snapshot = _find_icemirror_snapshot(table, name, head, cursor_property)
    epoch = max(last_snapshot.epoch, cursor_property.epoch if cursor_property else 0)
    mirror = Mirror(
        table=table,
        head=head,
        cursor=last_snapshot.cursor if last_snapshot.cursor.sources else None,
        epoch=epoch,
        root=None,
        field_map=field_map,
        has_foreign_writes=last_snapshot.snapshot_id != head.snapshot_id,
        icemirror_snapshot_id=last_snapshot.snapshot_id,
        root_path=last_snapshot.root_path,
        former_changelogs=former_changelogs,
    )
    try:
        root = _roots.get(last_snapshot.root_path, lambda: read_root(table.io, last_snapshot.root_path))
    except (FileNotFoundError, Corrupt) as error:
        log.warning("index root unreadable", table=name, reason=str(error))
        return replace(mirror, root_unreadable=True)
    if root.snapshot_id != last_snapshot.snapshot_id:
        raise Corrupt(
            f"{name}: the index root belongs to snapshot {root.snapshot_id}, not to {last_snapshot.snapshot_id}. To "
            f"continue, {REBUILD}. The root: {last_snapshot.root_path}"
        )
    return replace(mirror, root=root)


def remember_root(path: str, root: Root) -> None:
    """Cache the root that this process has just committed, so that its next merge does not read it."""
    _roots.put(path, root)


@dataclass(frozen=True, slots=True)
class _IcemirrorSnapshot:
    """What icemirror's last snapshot among the head's ancestors contains."""

    snapshot_id: int
    cursor: Cursor
    epoch: int
    root_path: str


def _find_icemirror_snapshot(
    table: Table, name: str, head: Snapshot, cursor_property: CursorProperty | None
) -> _IcemirrorSnapshot:
    """Walk back from the head over foreign writes.

    If icemirror's snapshot has expired, the table's properties describe it, but only if it is exactly the snapshot at
    which the walk ends. After a rollback to an earlier snapshot the properties describe another history.
    """
    snapshots = table.metadata.snapshots
    oldest = head
    for oldest in walk_ancestors(snapshots, head.snapshot_id):
        if oldest.summary and CURSOR in oldest.summary.additional_properties:
            return _parse_summary(oldest, oldest.summary.additional_properties, name)
    if cursor_property is not None and _is_parent(table.io, cursor_property, oldest, snapshots):
        return _IcemirrorSnapshot(
            cursor_property.snapshot_id,
            cursor_property.cursor,
            cursor_property.epoch,
            table.metadata.properties[INDEX_ROOT],
        )
    raise Invalid(
        f"{name}: another writer made snapshot {head.snapshot_id}, and none of its ancestors is icemirror's. Roll the "
        f"table back to one of icemirror's snapshots, or {REBUILD}."
    )


def _parse_summary(snapshot: Snapshot, summary: Mapping[str, str], name: str) -> _IcemirrorSnapshot:
    try:
        return _IcemirrorSnapshot(
            snapshot.snapshot_id,
            Cursor.model_validate_json(summary[CURSOR]),
            int(summary[EPOCH]),
            summary[INDEX_ROOT],
        )
    except (KeyError, ValueError) as error:
        raise Invalid(
            f"{name}: this version cannot parse the summary of snapshot {snapshot.snapshot_id}: {error}. If a newer "
            f"icemirror wrote it, use that version; else roll the table back to an earlier snapshot, or {REBUILD}."
        ) from error


def last_epoch(metadata: TableMetadata) -> int:
    """Return the greatest epoch of all snapshots and of the cursor property."""
    cursor_property = _read_cursor_property(metadata.properties)
    summaries = (
        snapshot.summary.additional_properties for snapshot in metadata.snapshots if snapshot.summary
    )
    epochs = [summary[EPOCH] for summary in summaries if summary.get(EPOCH, "").isdecimal()]
    return max([cursor_property.epoch if cursor_property else 0, *map(int, epochs)])


def _is_parent(
    io: FileIO, cursor_property: CursorProperty, first: Snapshot, known: Sequence[Snapshot]
) -> bool:
    """Whether the expired snapshot of the cursor property is the parent of `first`."""
    if any(snapshot.snapshot_id == cursor_property.snapshot_id for snapshot in known):
        return False
    if first.parent_snapshot_id is not None:
        return first.parent_snapshot_id == cursor_property.snapshot_id
    # PyIceberg removes the parent id when the parent expires, and only then. Two checks replace it.
    # Sequence numbers: no other snapshot expired in between.
    # Files: `first` lists files of the last commit that changed any, and none of a later commit. So it was not
    # committed after a rollback.
    between = range(cursor_property.sequence_number + 1, first.sequence_number or 0)
    numbers = {snapshot.sequence_number for snapshot in known if snapshot.sequence_number in between}
    if (first.sequence_number or 0) <= cursor_property.sequence_number or len(numbers) < len(between):
        return False
    number = (
        cursor_property.sequence_number
        if cursor_property.files_number is None
        else cursor_property.files_number
    )
    if not number:  # the table had no files, so `first` has only those that it added
        return not has_files_of_other_commits(io, first)
    return has_files_of_commit(io, first, number) and not has_files_of_commits_between(
        io, first, number, cursor_property.sequence_number
    )


def _files_number(metadata: TableMetadata) -> int | None:
    """Return the sequence number of the commit that last changed the table's files; 0 if none ever did."""
    cursor_property = _read_cursor_property(metadata.properties)
    number = metadata.next_sequence_number()
    for snapshot in walk_ancestors(metadata.snapshots, metadata.current_snapshot_id):
        if _changed_files(snapshot):
            return snapshot.sequence_number
        if cursor_property is not None and cursor_property.snapshot_id == snapshot.snapshot_id:
            return cursor_property.files_number
        number = snapshot.sequence_number or 0
    return 0 if number == 1 else None


def _changed_files(snapshot: Snapshot) -> bool:
    """Return whether a snapshot changed files. True for every foreign write, whose summary may be wrong."""
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    return CURSOR not in summary or any(summary.get(name, "0") != "0" for name in _ADDED_FILES)


def _read_cursor_property(properties: Mapping[str, str]) -> CursorProperty | None:
    try:
        return CursorProperty.model_validate_json(properties.get(CURSOR, ""))
    except ValidationError:
        return None


def _read_map(properties: Mapping[str, str], name: str) -> FieldMap:
    try:
        return load_field_map(properties[FIELD_MAP])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise Invalid(
            f"{name}: the table property {FIELD_MAP} is missing or damaged: {error!r}. Restore it from an earlier "
            f"metadata file of the table, or {RECREATE}."
        ) from error
