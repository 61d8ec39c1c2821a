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
    io: FileIO,
    metadata: TableMetadata,
    name: str,
    in_location: Sequence[str],
    in_metadata_path: Sequence[str],
) -> set[str]:
    """Return the metadata files of tables without a snapshot, which a lost attempt to create this table left behind.

    Such tables have no other files. Raise `Invalid` if another table uses the location: its files look like orphans.
    `in_location`: unreferenced metadata files in this table's locations. `in_metadata_path`: those in a metadata path
    outside of them, which count only if their table has the same location.
    """
    location = metadata.location.rstrip("/")
    owners = map_parallel(partial(_read_owner, io), [*in_location, *in_metadata_path], location)
    other_tables = [
        owner
        for owner in owners
        if owner
        and owner.table_uuid != str(metadata.table_uuid)
        and (owner.path in in_location or owner.location.rstrip("/") == location)
    ]
    if used := [owner for owner in other_tables if owner.has_snapshots]:
        raise Invalid(
            f"{name}: another table ({used[0].table_uuid}) has files in the same location, such as a mirror that was "
            "renamed, or dropped without its files. Nothing was deleted, because that table would lose files. Once "
            f"it is no longer needed, delete its metadata files ({len(used)}, such as {used[0].path})."
        )
    return {owner.path for owner in other_tables}


def _read_owner(io: FileIO, path: str) -> _MetadataOwner | None:
    """Return the owner of a metadata file; None for a file that was deleted meanwhile, or is incomplete."""
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
