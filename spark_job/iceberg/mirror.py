"""A mirror as it stands: its table, the cursor, and the index that belongs to its head."""

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

from icemirror.cursor import Cursor
from icemirror.errors import MAKE_ANEW, REBUILD, Corrupt, Invalid
from icemirror.telemetry.logs import get_log
from spark_job.columns.field_map import FieldMap, load_map, renumber
from spark_job.files.immutable import ReadOnce
from spark_job.iceberg.ancestors import walk_ancestors
from spark_job.iceberg.descent import holds_files_between, holds_files_of, holds_files_of_others
from spark_job.key_index.root import Root, read_root

_VERSION = "icemirror.version"
RUN_ID = "icemirror.run-id"
EPOCH = "icemirror.epoch"
CURSOR = "icemirror.cursor"
LIVE_ROWS = "icemirror.live-rows"
INDEX_ROOT = "icemirror.index-root"
FIELD_MAP = "icemirror.field-map"
SOURCE = "icemirror.source"
REJECTED = "icemirror.rejected"
REPLAY = "icemirror.replay"  # the request that a snapshot belongs to
REBUILDS = "icemirror.rebuilds"  # the requests of the last rebuilds
FORMER_SOURCES = "icemirror.former-sources"  # uuids of the changelogs that were followed before
_FORMAT_VERSION = "1"
_ADDED_FILES = ("added-data-files", "added-delete-files")

_roots: ReadOnce[Root] = ReadOnce(200_000, lambda root: 1 + len(root.files) + len(root.segments))

log = get_log(__name__)


class Anchor(BaseModel):
    """The table property `icemirror.cursor`: what the summary says, for when that snapshot has expired.

    `files_number`: the sequence number of the commit that last changed the table's files, which is this one or, where
    it changed none, one before it. 0: the table has none, and never had or lost them at once; null: nobody knows.
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
class Stamp:
    """By what a snapshot of icemirror is known: what its summary says, and the table's properties repeat."""

    summary: dict[str, str]
    properties: dict[str, str]


def stamp(
    table: Table,
    root: Root,
    root_path: str,
    cursor: Cursor,
    run_id: str,
    *,
    changes_files: bool,
    leaves_none: bool = False,
) -> Stamp:
    """Of the next snapshot, which the root belongs to; `leaves_none`: it leaves the table without files."""
    number = table.metadata.next_sequence_number()
    anchor = Anchor(
        snapshot_id=root.snapshot_id,
        sequence_number=number,
        epoch=root.epoch,
        cursor=cursor,
        files_number=0 if leaves_none else number if changes_files else _files_number(table.metadata),
    )
    summary = {
        _VERSION: _FORMAT_VERSION,
        RUN_ID: run_id,
        EPOCH: str(root.epoch),
        CURSOR: cursor.model_dump_json(),
        LIVE_ROWS: str(root.live_rows),
        INDEX_ROOT: root_path,
    }
    return Stamp(summary, {CURSOR: anchor.model_dump_json(), INDEX_ROOT: root_path})


@dataclass(frozen=True)
class Mirror:
    """What the next merge builds on. `head` is the snapshot that locate runs on, and so the fence.

    `foreign`: others have written since; root and cursor are those of icemirror's last snapshot before, `standing_id`.
    `lost`: the root at `root_path` cannot be read, so the whole index must be rebuilt. `former`: the uuids of the
    changelogs that it followed before.
    """

    table: Table
    head: Snapshot | None
    cursor: Cursor | None
    epoch: int
    root: Root | None
    field_map: FieldMap
    foreign: bool = False
    lost: bool = False
    standing_id: int | None = None
    root_path: str | None = None
    former: frozenset[str] = frozenset()

    @property
    def live_rows(self) -> int:
        """Rows that a reader sees; where the root is lost, those of icemirror's last snapshot."""
        if self.root is not None:
            return self.root.live_rows
        standing = self.table.metadata.snapshot_by_id(self.standing_id) if self.standing_id else None
        told = standing.summary.additional_properties if standing and standing.summary else {}
        return int(told.get(LIVE_ROWS, "0"))

    @property
    def row_schema(self) -> Schema:
        """The columns that come from the changelog, without the mirror's own."""
        schema, theirs = self.table.schema(), set(self.field_map.values())
        fields = [field for field in schema.fields if field.field_id in theirs]
        return Schema(*fields) if len(fields) < len(schema.fields) else schema

    @property
    def others_changed_rows(self) -> bool:
        """Whether others did more since icemirror's last snapshot than to put the same rows into other files."""
        line = walk_ancestors(self.table.metadata.snapshots, self.head.snapshot_id if self.head else None)
        theirs = takewhile(lambda snapshot: snapshot.snapshot_id != self.standing_id, line)
        return any(not one.summary or one.summary.operation is not Operation.REPLACE for one in theirs)

    @property
    def index_bytes(self) -> int:
        """Size of the key index."""
        return self.root.bytes if self.root else 0


def read_mirror(table: Table, name: str) -> Mirror:
    """Reads a mirror, and refuses a table that is none."""
    properties = table.metadata.properties
    if SOURCE not in properties:
        raise Invalid(
            f"{name}: the table exists, but icemirror did not make it. Drop it, or name another mirror_table, "
            "so that nothing of yours is overwritten; or make it the mirror with `icemirror adopt`."
        )
    field_map = _read_map(properties, name)
    anchor = _read_anchor(properties)
    former = frozenset(properties.get(FORMER_SOURCES, "").split())
    head = table.current_snapshot()
    if head is None:
        given = renumber(field_map, table.schema())
        return Mirror(table, None, None, anchor.epoch if anchor else 0, None, given, former=former)
    standing = _find_standing(table, name, head, anchor)
    epoch = max(standing.epoch, anchor.epoch if anchor else 0)
    mirror = Mirror(
        table=table,
        head=head,
        cursor=standing.cursor if standing.cursor.sources else None,
        epoch=epoch,
        root=None,
        field_map=field_map,
        foreign=standing.snapshot_id != head.snapshot_id,
        standing_id=standing.snapshot_id,
        root_path=standing.root_path,
        former=former,
    )
    try:
        root = _roots.get(standing.root_path, lambda: read_root(table.io, standing.root_path))
    except (FileNotFoundError, Corrupt) as error:
        log.warning("the root of the key index cannot be read", table=name, reason=str(error))
        return replace(mirror, lost=True)
    if root.snapshot_id != standing.snapshot_id:
        raise Corrupt(
            f"{name}: index root {standing.root_path} belongs to snapshot {root.snapshot_id}, "
            f"not to {standing.snapshot_id}. To go on, {REBUILD}."
        )
    return replace(mirror, root=root)


def remember_root(path: str, root: Root) -> None:
    """Spares the next merge of this process reading the root that it has just committed."""
    _roots.put(path, root)


@dataclass(frozen=True, slots=True)
class _Standing:
    """What icemirror's last snapshot in the history of the head says."""

    snapshot_id: int
    cursor: Cursor
    epoch: int
    root_path: str


def _find_standing(table: Table, name: str, head: Snapshot, anchor: Anchor | None) -> _Standing:
    """Walks back over the snapshots of other writers.

    Where icemirror's own snapshot has expired, the table's properties speak for it, but only if it is the very one
    that is missing from the walk: after a rollback to before it they say nothing about this history.
    """
    snapshots = table.metadata.snapshots
    at = head
    for at in walk_ancestors(snapshots, head.snapshot_id):
        if at.summary and CURSOR in at.summary.additional_properties:
            return _told_by(at, at.summary.additional_properties, name)
    if anchor is not None and _is_parent(table.io, anchor, at, snapshots):
        return _Standing(
            anchor.snapshot_id, anchor.cursor, anchor.epoch, table.metadata.properties[INDEX_ROOT]
        )
    raise Invalid(
        f"{name}: snapshot {head.snapshot_id} was made by another writer, and its history leads back to none "
        f"of icemirror's. Roll the table back to one of icemirror's snapshots, or {REBUILD}."
    )


def _told_by(at: Snapshot, summary: Mapping[str, str], name: str) -> _Standing:
    try:
        return _Standing(
            at.snapshot_id,
            Cursor.model_validate_json(summary[CURSOR]),
            int(summary[EPOCH]),
            summary[INDEX_ROOT],
        )
    except (KeyError, ValueError) as error:
        raise Invalid(
            f"{name}: this version cannot read the summary of snapshot {at.snapshot_id}: {error}. If a newer "
            "icemirror wrote it, use that one; else roll the table back to a snapshot before it, "
            f"or {REBUILD}."
        ) from error


def greatest_epoch(metadata: TableMetadata) -> int:
    """The last epoch of any snapshot that is there, or of the one that the properties speak for."""
    anchor = _read_anchor(metadata.properties)
    told = (snapshot.summary.additional_properties for snapshot in metadata.snapshots if snapshot.summary)
    epochs = [one[EPOCH] for one in told if one.get(EPOCH, "").isdecimal()]
    return max([anchor.epoch if anchor else 0, *map(int, epochs)])


def _is_parent(io: FileIO, anchor: Anchor, first: Snapshot, known: Sequence[Snapshot]) -> bool:
    """Whether the anchor's snapshot, which has expired, is the one before this."""
    if any(one.snapshot_id == anchor.snapshot_id for one in known):
        return False
    if first.parent_snapshot_id is not None:
        return first.parent_snapshot_id == anchor.snapshot_id
    # PyIceberg cuts the tie to an expired parent, and only to such a one. The numbers then tell that nothing which has
    # expired was in between, and the files that this one did not begin elsewhere, after a rollback: it has some of the
    # last commit that added any, and none of what came after that and was rolled back.
    between = range(anchor.sequence_number + 1, first.sequence_number or 0)
    numbers = {one.sequence_number for one in known if one.sequence_number in between}
    if (first.sequence_number or 0) <= anchor.sequence_number or len(numbers) < len(between):
        return False
    number = anchor.sequence_number if anchor.files_number is None else anchor.files_number
    if not number:  # the table had none, so this one has only its own
        return not holds_files_of_others(io, first)
    return holds_files_of(io, first, number) and not holds_files_between(
        io, first, number, anchor.sequence_number
    )


def _files_number(metadata: TableMetadata) -> int | None:
    """The sequence number of the commit that last changed the table's files; 0 if none ever did."""
    anchor = _read_anchor(metadata.properties)
    number = metadata.next_sequence_number()
    for at in walk_ancestors(metadata.snapshots, metadata.current_snapshot_id):
        if _changed_files(at):
            return at.sequence_number
        if anchor is not None and anchor.snapshot_id == at.snapshot_id:
            return anchor.files_number
        number = at.sequence_number or 0
    return 0 if number == 1 else None


def _changed_files(snapshot: Snapshot) -> bool:
    """What icemirror's own say of that can be relied on."""
    told = snapshot.summary.additional_properties if snapshot.summary else {}
    return CURSOR not in told or any(told.get(name, "0") != "0" for name in _ADDED_FILES)


def _read_anchor(properties: Mapping[str, str]) -> Anchor | None:
    try:
        return Anchor.model_validate_json(properties.get(CURSOR, ""))
    except ValidationError:
        return None


def _read_map(properties: Mapping[str, str], name: str) -> FieldMap:
    try:
        return load_map(properties[FIELD_MAP])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise Invalid(
            f"{name}: the table property {FIELD_MAP} is gone or damaged: {error!r}. Restore it from an earlier "
            f"metadata file of the table, or {MAKE_ANEW}."
        ) from error
