"""The root of a key index: its segments, newest first, and the number of live rows in each data file."""

from __future__ import annotations

import zlib
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile

from icemirror.errors import REBUILD_ADVICE, Corrupt, Invalid
from spark_job.index.puffin import Blob, read_blobs, read_span, write_puffin
from spark_job.index.segment import SegmentInfo
from spark_job.index.tiers import SortedRunGroup
from spark_job.storage.file_cache import FileCache

BLOB_TYPE = "icemirror-index-root-v1"
_MAX_ROOT_BYTES = 256 << 20

_segment_paths_cache: FileCache[frozenset[str]] = FileCache(100_000, lambda paths: 1 + len(paths))


class IndexedFile(BaseModel):
    """A data file of the mirror. Segments refer to it by its ordinal in the root.

    `live_rows` is stored as `live`. `removed`: no longer in the table; stored as `gone`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    path: str
    rows: int
    live_rows: int = Field(validation_alias="live", serialization_alias="live")
    removed: bool = Field(default=False, validation_alias="gone", serialization_alias="gone")

    @classmethod
    def for_new_file(cls, file: DataFile) -> IndexedFile:
        """Return the entry of a file that a commit adds: all rows are live."""
        return cls(path=file.file_path, rows=file.record_count, live_rows=file.record_count)


class Root(BaseModel):
    """One version of the index, bound to the snapshot that committed it.

    `next_sorted_run`: number of the next sorted run; stored as `next_run`. `merging`: groups of sorted runs that are
    being merged. `newest_expired_tombstone_order`: the greatest order of a tombstone that was dropped; stored
    as `expired`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    version: Literal[1] = 1
    snapshot_id: int
    epoch: int
    segments: tuple[SegmentInfo, ...]
    files: tuple[IndexedFile, ...]
    next_sorted_run: int = Field(default=1, validation_alias="next_run", serialization_alias="next_run")
    merging: tuple[SortedRunGroup, ...] = ()
    newest_expired_tombstone_order: tuple[int, ...] | None = Field(
        default=None, validation_alias="expired", serialization_alias="expired"
    )

    @property
    def removed_ordinals(self) -> frozenset[int]:
        """Ordinals of files that were removed from the table. An entry that refers to one of them is a tombstone."""
        return frozenset(ordinal for ordinal, file in enumerate(self.files) if file.removed)

    @property
    def live_rows(self) -> int:
        """Number of rows that are not deleted."""
        return sum(file.live_rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Total size of the segments."""
        return sum(segment.bytes for segment in self.segments)


def drop_unreferenced_files(root: Root) -> Root:
    """Return the root without removed files that no segment refers to. Ordinals are renumbered."""
    referenced = {ordinal for segment in root.segments for ordinal in segment.files}
    kept_ordinals = [
        ordinal for ordinal, file in enumerate(root.files) if not file.removed or ordinal in referenced
    ]
    if len(kept_ordinals) == len(root.files):
        return root
    new_ordinal = {old: new for new, old in enumerate(kept_ordinals)}
    segments = [
        segment.model_copy(update={"files": tuple(new_ordinal[ordinal] for ordinal in segment.files)})
        for segment in root.segments
    ]
    files = [root.files[ordinal] for ordinal in kept_ordinals]
    return root.model_copy(update={"segments": tuple(segments), "files": tuple(files)})


def write_root(io: FileIO, path: str, root: Root) -> int:
    """Write the root as a Puffin file. Return its size."""
    payload = root.model_dump_json(by_alias=True).encode()
    if len(payload) > _MAX_ROOT_BYTES:
        raise Invalid(
            f"the index root is too large ({len(payload):,} bytes): {REBUILD_ADVICE}. Its path: {path}"
        )
    size, _ = write_puffin(io, path, [Blob(BLOB_TYPE, payload, {"crc32": str(zlib.crc32(payload))})])
    _segment_paths_cache.put(path, _segment_paths(root))
    return size


def segment_paths(io: FileIO, path: str) -> frozenset[str]:
    """Return the paths of a root's segments. They are cached for longer than the root, which is larger."""
    return _segment_paths_cache.get(path, lambda: _segment_paths(read_root(io, path)))


def _segment_paths(root: Root) -> frozenset[str]:
    return frozenset(segment.path for segment in root.segments)


def read_root(io: FileIO, path: str) -> Root:
    """Read a root and check its checksum."""
    blobs = [blob for blob in read_blobs(io, path) if blob.type == BLOB_TYPE]
    if len(blobs) != 1:
        raise Corrupt(f"expected one index root, found {len(blobs)}: {path}")
    payload = read_span(io, path, blobs[0].span, _MAX_ROOT_BYTES)
    if str(zlib.crc32(payload)) != blobs[0].properties.get("crc32"):
        raise Corrupt(f"the index root does not match its checksum: {path}")
    try:
        return Root.model_validate_json(payload)
    except ValidationError as error:
        raise Corrupt(f"the index root cannot be parsed, {error.error_count()} problems: {path}") from error
