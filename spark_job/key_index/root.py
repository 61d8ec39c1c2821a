"""The root of an index: its live segments, newest first, and the live rows of each data file."""

from __future__ import annotations

import zlib
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from pyiceberg.io import FileIO

from icemirror.errors import REBUILD, Corrupt, Invalid
from spark_job.key_index.puffin import Blob, read_blobs, read_span, write_puffin
from spark_job.key_index.segment import SegmentInfo
from spark_job.key_index.tiers import Group

BLOB_TYPE = "icemirror-index-root-v1"
_MAX_ROOT_BYTES = 256 << 20


class IndexedFile(BaseModel):
    """A data file of the mirror. Segments name it by its ordinal in the root."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    rows: int
    live: int


class Root(BaseModel):
    """One version of the index, bound to the snapshot that it was committed with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    snapshot_id: int
    epoch: int
    segments: tuple[SegmentInfo, ...]
    files: tuple[IndexedFile, ...]
    next_run: int = 1
    merging: tuple[Group, ...] = ()

    @property
    def live_rows(self) -> int:
        """Rows of the mirror that are not deleted."""
        return sum(file.live for file in self.files)

    @property
    def bytes(self) -> int:
        """Size of all segments."""
        return sum(segment.bytes for segment in self.segments)


def write_root(io: FileIO, path: str, root: Root) -> int:
    """Writes the root as a Puffin file of its own; its size."""
    payload = root.model_dump_json().encode()
    if len(payload) > _MAX_ROOT_BYTES:
        raise Invalid(f"{path}: the index's root is too large ({len(payload):,} bytes): {REBUILD}.")
    size, _ = write_puffin(io, path, [Blob(BLOB_TYPE, payload, {"crc32": str(zlib.crc32(payload))})])
    return size


def read_root(io: FileIO, path: str) -> Root:
    """Reads a root and checks it against its checksum."""
    blobs = [blob for blob in read_blobs(io, path) if blob.type == BLOB_TYPE]
    if len(blobs) != 1:
        raise Corrupt(f"{path}: expected one index root, found {len(blobs)}")
    payload = read_span(io, path, blobs[0].span, _MAX_ROOT_BYTES)
    if str(zlib.crc32(payload)) != blobs[0].properties.get("crc32"):
        raise Corrupt(f"{path}: the index root does not match its checksum")
    try:
        return Root.model_validate_json(payload)
    except ValidationError as error:
        raise Corrupt(f"{path}: the index root cannot be read: {error.error_count()} problems") from error
