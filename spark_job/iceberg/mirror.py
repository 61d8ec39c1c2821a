"""A mirror as it stands: its table, the cursor, and the index that belongs to its head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icemirror.cursor import Cursor
from icemirror.errors import REBUILD, Corrupt, Invalid
from spark_job.field_map import FieldMap, load_map
from spark_job.immutable import ReadOnce
from spark_job.key_index.root import Root, read_root

VERSION = "icemirror.version"
RUN_ID = "icemirror.run-id"
EPOCH = "icemirror.epoch"
CURSOR = "icemirror.cursor"
LIVE_ROWS = "icemirror.live-rows"
INDEX_ROOT = "icemirror.index-root"
FIELD_MAP = "icemirror.field-map"
SOURCE = "icemirror.source"

_roots: ReadOnce[Root] = ReadOnce(8)


class Anchor(BaseModel):
    """The table property `icemirror.cursor`: what the summary says, for when that snapshot has expired."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    branch: str = "main"
    snapshot_id: int
    epoch: int
    cursor: Cursor


@dataclass(frozen=True)
class Mirror:
    """What the next merge builds on. `head` is the snapshot that locate runs on, and so the fence."""

    table: Table
    head: Snapshot | None
    cursor: Cursor | None
    epoch: int
    root: Root | None
    field_map: FieldMap

    @property
    def live_rows(self) -> int:
        """Rows that a reader sees."""
        return self.root.live_rows if self.root else 0

    @property
    def index_bytes(self) -> int:
        """Size of the key index."""
        return self.root.bytes if self.root else 0


def read_mirror(table: Table, name: str) -> Mirror:
    """Reads a mirror, and refuses a table that is none or that others have written to."""
    properties = table.metadata.properties
    if SOURCE not in properties:
        raise Invalid(
            f"{name}: the table exists, but icemirror did not make it. Drop it, or name another mirror_table, "
            "so that nothing of yours is overwritten."
        )
    field_map = _read_map(properties, name)
    head = table.current_snapshot()
    if head is None:
        return Mirror(table, None, None, 0, None, field_map)
    summary = head.summary.additional_properties if head.summary else {}
    if CURSOR not in summary:
        raise Invalid(_foreign(table, name, head))
    try:
        cursor, epoch, root_path = (
            Cursor.model_validate_json(summary[CURSOR]),
            int(summary[EPOCH]),
            summary[INDEX_ROOT],
        )
    except (KeyError, ValueError) as error:
        raise Invalid(
            f"{name}: this version cannot read the summary of snapshot {head.snapshot_id}: {error}. If a newer "
            "icemirror wrote it, use that one; else roll the table back to a snapshot before it, "
            f"or {REBUILD}."
        ) from error
    root = _roots.get(root_path, lambda: _read_root(table, name, root_path))
    if root.snapshot_id != head.snapshot_id:
        raise Corrupt(
            f"{name}: index root {root_path} belongs to snapshot {root.snapshot_id}, not to {head.snapshot_id}"
        )
    return Mirror(table, head, cursor, epoch, root, field_map)


def _read_map(properties: Mapping[str, str], name: str) -> FieldMap:
    try:
        return load_map(properties[FIELD_MAP])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise Invalid(
            f"{name}: the table property {FIELD_MAP} is gone or damaged: {error!r}. Restore it from an earlier "
            f"metadata file of the table, or {REBUILD}."
        ) from error


def _read_root(table: Table, name: str, path: str) -> Root:
    try:
        return read_root(table.io, path)
    except FileNotFoundError as error:
        raise Corrupt(f"{name}: the index root {path} is gone: {REBUILD}.") from error


def _foreign(table: Table, name: str, head: Snapshot) -> str:
    operation = head.summary.operation.value if head.summary else "unknown"
    try:
        anchor = Anchor.model_validate_json(table.metadata.properties.get(CURSOR, ""))
        ours = f"snapshot {anchor.snapshot_id}"
    except ValidationError:
        ours = "none of its snapshots"
    return (
        f"{name}: snapshot {head.snapshot_id} ({operation}) was made by another writer; icemirror's last is {ours}. "
        "Merging beside other writers is not supported by this version: roll the table back to that snapshot, then "
        "`icemirror resume`."
    )
