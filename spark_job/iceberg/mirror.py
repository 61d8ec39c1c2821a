"""Reads a mirror: its table, its cursor, and the index root that belongs to its head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from icemirror.errors import REBUILD_ADVICE, RECREATE_ADVICE, Corrupt, Invalid
from icemirror.tables.cursor import Cursor
from icemirror.telemetry.logs import get_log
from spark_job.columns.field_map import FieldMap, load_field_map, with_assigned_ids
from spark_job.iceberg.ancestry import walk_ancestors
from spark_job.iceberg.cursor_property import CursorProperty, is_expired_parent, read_cursor_property
from spark_job.iceberg.property_names import (
    PROPERTY_CURSOR,
    PROPERTY_EPOCH,
    PROPERTY_FIELD_MAP,
    PROPERTY_FORMER_SOURCES,
    PROPERTY_INDEX_ROOT,
    PROPERTY_LIVE_ROWS,
    PROPERTY_SOURCE,
)
from spark_job.index.root import Root, read_root
from spark_job.storage.file_cache import FileCache

_roots: FileCache[Root] = FileCache(200_000, lambda root: 1 + len(root.files) + len(root.segments))

log = get_log(__name__)


@dataclass(frozen=True)
class Mirror:
    """A mirror as it was read. `head`: the snapshot that the next commit must follow.

    - `indexed_snapshot_id`: icemirror's last snapshot, to which `root` and `cursor` belong.
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
    indexed_snapshot_id: int | None = None
    root_path: str | None = None
    former_changelogs: frozenset[str] = frozenset()

    @property
    def live_rows(self) -> int:
        """Rows that a reader sees; if the root cannot be read, those of icemirror's last snapshot."""
        if self.root is not None:
            return self.root.live_rows
        metadata, snapshot_id = self.table.metadata, self.indexed_snapshot_id
        snapshot = metadata.snapshot_by_id(snapshot_id) if snapshot_id else None
        summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
        return int(summary.get(PROPERTY_LIVE_ROWS, "0"))

    @property
    def row_schema(self) -> Schema:
        """The columns that come from the changelog, without those that the mirror adds."""
        schema, mapped = self.table.schema(), set(self.field_map.values())
        fields = [field for field in schema.fields if field.field_id in mapped]
        return Schema(*fields) if len(fields) < len(schema.fields) else schema

    @property
    def has_foreign_row_changes(self) -> bool:
        """Return whether a foreign write did more than move the same rows to other files."""
        ancestors = walk_ancestors(
            self.table.metadata.snapshots, self.head.snapshot_id if self.head else None
        )
        foreign_writes = takewhile(
            lambda snapshot: snapshot.snapshot_id != self.indexed_snapshot_id, ancestors
        )
        return any(
            not snapshot.summary or snapshot.summary.operation is not Operation.REPLACE
            for snapshot in foreign_writes
        )

    @property
    def index_bytes(self) -> int:
        """Size of the key index in bytes."""
        return self.root.bytes if self.root else 0


def require_mirror(iceberg_table: Table, name: str) -> None:
    """Raise `Invalid` if icemirror did not create the table."""
    if PROPERTY_SOURCE not in iceberg_table.metadata.properties:
        raise Invalid(
            f"{name}: the table exists, but icemirror did not create it. Drop it, or choose another mirror_table, "
            "so that none of your data is overwritten; or make it the mirror with `icemirror adopt`."
        )


def read_mirror(iceberg_table: Table, name: str) -> Mirror:
    """Return the mirror that a table holds. Raise `Invalid` if the table is no mirror."""
    require_mirror(iceberg_table, name)
    properties = iceberg_table.metadata.properties
    field_map = _read_field_map(properties, name)
    cursor_property = read_cursor_property(properties)
    former_changelogs = frozenset(properties.get(PROPERTY_FORMER_SOURCES, "").split())
    head = iceberg_table.current_snapshot()
    if head is None:
        return Mirror(
            table=iceberg_table,
            head=None,
            cursor=None,
            epoch=cursor_property.epoch if cursor_property else 0,
            root=None,
            field_map=with_assigned_ids(field_map, iceberg_table.schema()),
            former_changelogs=former_changelogs,
        )
    indexed_snapshot = _find_indexed_snapshot(iceberg_table, name, head, cursor_property)
    epoch = max(indexed_snapshot.epoch, cursor_property.epoch if cursor_property else 0)
    mirror = Mirror(
        table=iceberg_table,
        head=head,
        cursor=indexed_snapshot.cursor if indexed_snapshot.cursor.sources else None,
        epoch=epoch,
        root=None,
        field_map=field_map,
        has_foreign_writes=indexed_snapshot.snapshot_id != head.snapshot_id,
        indexed_snapshot_id=indexed_snapshot.snapshot_id,
        root_path=indexed_snapshot.root_path,
        former_changelogs=former_changelogs,
    )
    try:
        root = _roots.get(
            indexed_snapshot.root_path, lambda: read_root(iceberg_table.io, indexed_snapshot.root_path)
        )
    except (FileNotFoundError, Corrupt) as error:
        log.warning("index root unreadable", table=name, reason=str(error))
        return replace(mirror, root_unreadable=True)
    if root.snapshot_id != indexed_snapshot.snapshot_id:
        raise Corrupt(
            f"{name}: the index root belongs to snapshot {root.snapshot_id}, not to {indexed_snapshot.snapshot_id}. To "
            f"continue, {REBUILD_ADVICE}. The root: {indexed_snapshot.root_path}"
        )
    return replace(mirror, root=root)


def cache_root(path: str, root: Root) -> None:
    """Cache the root that this process has just committed, so that its next merge does not read it."""
    _roots.put(path, root)


@dataclass(frozen=True, slots=True)
class _IndexedSnapshot:
    """The content of icemirror's last snapshot among the head's ancestors, which the index describes."""

    snapshot_id: int
    cursor: Cursor
    epoch: int
    root_path: str


def _find_indexed_snapshot(
    iceberg_table: Table, name: str, head: Snapshot, cursor_property: CursorProperty | None
) -> _IndexedSnapshot:
    """Return icemirror's last snapshot: walk back from the head over foreign writes.

    If that snapshot has expired, the table's properties describe it, but only if it is exactly the snapshot at
    which the walk ends. After a rollback to an earlier snapshot the properties describe another history.
    """
    snapshots = iceberg_table.metadata.snapshots
    oldest = head
    for oldest in walk_ancestors(snapshots, head.snapshot_id):
        if oldest.summary and PROPERTY_CURSOR in oldest.summary.additional_properties:
            return _parse_summary(oldest, oldest.summary.additional_properties, name)
    if cursor_property is not None and is_expired_parent(
        iceberg_table.io, cursor_property, oldest, snapshots
    ):
        return _IndexedSnapshot(
            cursor_property.snapshot_id,
            cursor_property.cursor,
            cursor_property.epoch,
            iceberg_table.metadata.properties[PROPERTY_INDEX_ROOT],
        )
    raise Invalid(
        f"{name}: another writer made snapshot {head.snapshot_id}, and none of its ancestors is icemirror's. Roll the "
        f"table back to one of icemirror's snapshots, or {REBUILD_ADVICE}."
    )


def _parse_summary(snapshot: Snapshot, summary: Mapping[str, str], name: str) -> _IndexedSnapshot:
    try:
        return _IndexedSnapshot(
            snapshot.snapshot_id,
            Cursor.model_validate_json(summary[PROPERTY_CURSOR]),
            int(summary[PROPERTY_EPOCH]),
            summary[PROPERTY_INDEX_ROOT],
        )
    except (KeyError, ValueError) as error:
        raise Invalid(
            f"{name}: this version cannot parse the summary of snapshot {snapshot.snapshot_id}: {error}. If a newer "
            "icemirror wrote it, use that version; else roll the table back to an earlier snapshot, or "
            f"{REBUILD_ADVICE}."
        ) from error


def _read_field_map(properties: Mapping[str, str], name: str) -> FieldMap:
    try:
        return load_field_map(properties[PROPERTY_FIELD_MAP])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise Invalid(
            f"{name}: the table property {PROPERTY_FIELD_MAP} is missing or damaged: {error!r}. Restore it from an "
            f"earlier metadata file of the table, or {RECREATE_ADVICE}."
        ) from error
