"""The root of an index: its live segments, newest first, and the live rows of each data file."""

from __future__ import annotations

import zlib
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile

from icemirror.errors import REBUILD, Corrupt, Invalid
from spark_job.files.immutable import ReadOnce
from spark_job.key_index.puffin import Blob, read_blobs, read_span, write_puffin
from spark_job.key_index.segment import SegmentInfo
from spark_job.key_index.tiers import Group

BLOB_TYPE = "icemirror-index-root-v1"
_MAX_ROOT_BYTES = 256 << 20

_segments: ReadOnce[frozenset[str]] = ReadOnce(100_000, lambda paths: 1 + len(paths))


class IndexedFile(BaseModel):
    """A data file of the mirror. Segments name it by its ordinal in the root."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    rows: int
    live: int
    gone: bool = False

    @classmethod
    def added(cls, file: DataFile) -> IndexedFile:
        """One that comes with the commit: all of its rows are live."""
        return cls(path=file.file_path, rows=file.record_count, live=file.record_count)


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
    expired: tuple[int, ...] | None = None

    @property
    def gone(self) -> frozenset[int]:
        """Ordinals of the files that were taken out of the table: what points there is a tombstone."""
        return frozenset(ordinal for ordinal, file in enumerate(self.files) if file.gone)

    @property
    def live_rows(self) -> int:
        """Rows of the mirror that are not deleted."""
        return sum(file.live for file in self.files)

    @property
    def bytes(self) -> int:
        """Size of all segments."""
        return sum(segment.bytes for segment in self.segments)


def forget_files(root: Root) -> Root:
    """The root without the files that are gone and that no segment names any more."""
    named = {ordinal for segment in root.segments for ordinal in segment.files}
    kept = [ordinal for ordinal, file in enumerate(root.files) if not file.gone or ordinal in named]
    if len(kept) == len(root.files):
        return root
    place = {ordinal: at for at, ordinal in enumerate(kept)}
    segments = [
        segment.model_copy(update={"files": tuple(place[ordinal] for ordinal in segment.files)})
        for segment in root.segments
    ]
    files = [root.files[ordinal] for ordinal in kept]
    return root.model_copy(update={"segments": tuple(segments), "files": tuple(files)})


def root_path(location: str, root: Root) -> str:
    """Where a root is kept, in the folder of its index."""
    return f"{location}/{root.epoch:010d}-{root.snapshot_id}.root.puffin"


def write_root(io: FileIO, path: str, root: Root) -> int:
    """Writes the root as a Puffin file of its own; its size."""
    payload = root.model_dump_json().encode()
    if len(payload) > _MAX_ROOT_BYTES:
        raise Invalid(f"{path}: the index's root is too large ({len(payload):,} bytes): {REBUILD}.")
    size, _ = write_puffin(io, path, [Blob(BLOB_TYPE, payload, {"crc32": str(zlib.crc32(payload))})])
    _segments.put(path, _paths(root))
    return size


def segment_paths(io: FileIO, path: str) -> frozenset[str]:
    """The segments that a root names; remembered for longer than the root itself, which is larger."""
    return _segments.get(path, lambda: _paths(read_root(io, path)))


def _paths(root: Root) -> frozenset[str]:
    return frozenset(segment.path for segment in root.segments)


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
