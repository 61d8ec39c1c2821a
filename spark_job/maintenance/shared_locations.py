"""Detects other tables in a mirror's location, such as an earlier mirror that was renamed and kept its files."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from icemirror.errors import Invalid
from spark_job.storage.parallel import map_parallel

METADATA_SUFFIXES = (".metadata.json", ".metadata.json.gz")
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class _MetadataOwner:
    """The table that a metadata file belongs to."""

    path: str
    table_uuid: str
    location: str
    has_snapshots: bool


def require_unshared_location(
    io: FileIO, metadata: TableMetadata, name: str, here: Sequence[str], elsewhere: Sequence[str]
) -> set[str]:
    """Refuse a location that another table uses: its files look like orphans.

    `here`: unreferenced metadata files in this table's locations. `elsewhere`: those in a metadata location outside,
    which count only if their table has the same location. Returns the metadata files of tables without a snapshot,
    left by a lost attempt to create this table: such tables have no other files.
    """
    location = metadata.location.rstrip("/")
    found = map_parallel(partial(_read_owner, io), [*here, *elsewhere], location)
    others = [
        owner
        for owner in found
        if owner
        and owner.table_uuid != str(metadata.table_uuid)
        and (owner.path in here or owner.location.rstrip("/") == location)
    ]
    if used := [owner for owner in others if owner.has_snapshots]:
        raise Invalid(
            f"{name}: another table ({used[0].table_uuid}) has files in the same location, such as a mirror that was "
            "renamed, or dropped without its files. Nothing was deleted, because that table would lose files. Once "
            f"it is no longer needed, delete its metadata files ({len(used)}, such as {used[0].path})."
        )
    return {owner.path for owner in others}


def _read_owner(io: FileIO, path: str) -> _MetadataOwner | None:
    """Read the owner; None for a file that was deleted meanwhile, or is incomplete."""
    try:
        with io.new_input(path).open(seekable=False) as stream:
            content = stream.read()
    except FileNotFoundError:
        return None
    try:
        document = json.loads(gzip.decompress(content) if content.startswith(_GZIP) else content)
    except (ValueError, OSError, EOFError, zlib.error, RecursionError):
        return None
    if not isinstance(document, dict) or "format-version" not in document:
        return None
    return _MetadataOwner(
        path=path,
        table_uuid=str(document.get("table-uuid", "no uuid")),
        location=str(document.get("location", "")),
        has_snapshots=bool(document.get("snapshots")),
    )
