"""Other tables in the same place: a mirror that was renamed to keep it stays where the next one is made."""

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
from spark_job.files.round_trips import for_each

METADATA = (".metadata.json", ".metadata.json.gz")
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class _Owner:
    """Whose metadata file it is."""

    path: str
    table_uuid: str
    location: str
    has_snapshots: bool


def require_alone(
    io: FileIO, metadata: TableMetadata, name: str, here: Sequence[str], elsewhere: Sequence[str]
) -> set[str]:
    """Refuses a place that another table uses: no name tells whose a file is that this one does not know.

    `here`: metadata files in this table's places that it does not name. `elsewhere`: those where its metadata goes
    outside of its location, which count if they are of a table at the same location. Given back are those of tables
    without a snapshot, as an attempt leaves that was not the first to create this one: they have no other files.
    """
    location = metadata.location.rstrip("/")
    found = for_each(partial(_read_owner, io), [*here, *elsewhere], location)
    others = [
        owner
        for owner in found
        if owner
        and owner.table_uuid != str(metadata.table_uuid)
        and (owner.path in here or owner.location.rstrip("/") == location)
    ]
    if used := [owner for owner in others if owner.has_snapshots]:
        raise Invalid(
            f"{name}: another table ({used[0].table_uuid}) has files in its place, as a mirror has that was renamed, "
            "or dropped without its files, before this one was made. Nothing was deleted, for that table would lose "
            f"them. Once nobody needs it, delete its metadata files ({len(used)}, such as {used[0].path})."
        )
    return {owner.path for owner in others}


def _read_owner(io: FileIO, path: str) -> _Owner | None:
    """None for what is gone by now, and for what is no metadata: half a file of a lost attempt, say."""
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
    return _Owner(
        path=path,
        table_uuid=str(document.get("table-uuid", "no uuid")),
        location=str(document.get("location", "")),
        has_snapshots=bool(document.get("snapshots")),
    )
