"""Caches small segments as sorted columns, so that one binary search finds all keys without a read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.index.blocks import read_blocks, read_directory
from spark_job.index.byte_ranges import open_ranges
from spark_job.index.keys import U64, Indices, Keys, floor_indices
from spark_job.index.segment import Layout, SegmentInfo
from spark_job.storage.immutable_cache import FileCache

_SMALL_BYTES = 256 << 10  # a segment up to this size is always cached: every merge searches it
_LARGE_BYTES = 4 << 20  # a segment up to this size is cached if a lookup needs this share of its blocks:
_MIN_BLOCK_SHARE = 1 / 8
_MAX_CACHE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """All rows of a segment. For runs: the length of each, and the number of entries before it."""

    keys: Keys
    file: NDArray[np.int32]
    pos: NDArray[np.uint32]
    length: U64 | None = None
    entries_before: U64 | None = None

    @property
    def bytes(self) -> int:
        """Size in memory."""
        columns = (self.keys.lo, self.keys.hi, self.file, self.pos, self.length, self.entries_before)
        return sum(column.nbytes for column in columns if column is not None)


@dataclass(frozen=True, slots=True)
class SegmentHits:
    """The keys that were found: their indices among the requested keys, and file, position and entry number of each."""

    key_index: Indices
    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    entry: U64


_known: FileCache[SegmentRows] = FileCache(_MAX_CACHE_BYTES, lambda rows: rows.bytes)


def is_cached_or_small(segment: SegmentInfo) -> bool:
    """Whether a segment is cached, or so small that it should be."""
    return segment.payload.length <= _SMALL_BYTES or _known.find(segment.path) is not None


def should_cache(segment: SegmentInfo, blocks: int) -> bool:
    """Whether to read and cache a whole segment of which this many blocks are needed."""
    return segment.payload.length <= _LARGE_BYTES and blocks >= _MIN_BLOCK_SHARE * segment.geometry.blocks


def read_segment_rows(io: FileIO, segment: SegmentInfo) -> SegmentRows:
    """Return all rows of a segment. They are cached."""
    return _known.get(segment.path, lambda: _read(io, segment))


def _read(io: FileIO, segment: SegmentInfo) -> SegmentRows:
    directory = read_directory(io, segment)
    with open_ranges(io, segment.path) as source:
        blocks = read_blocks(source, segment, directory, np.arange(segment.geometry.blocks))
    # Only the last block is not full.
    columns = {name: values.reshape(-1)[: segment.geometry.rows] for name, values in blocks.columns.items()}
    high = columns.get("key_hi")
    keys = Keys(columns["key_lo"].astype(np.uint64), None if high is None else high.astype(np.uint64))
    file, pos = columns["file"].astype(np.int32), columns["pos"].astype(np.uint32)
    if segment.layout is not Layout.RUNS:
        return SegmentRows(keys, file, pos)
    length = columns["length"].astype(np.uint64)
    return SegmentRows(keys, file, pos, length, np.cumsum(length) - length)


def search_segment_rows(rows: SegmentRows, keys: Keys) -> SegmentHits:
    """Look up keys: find the last row whose first key is ≤ the key, then check whether the key lies within it."""
    at = floor_indices(rows.keys, keys)
    key_index = np.flatnonzero(at >= 0)
    at = at[key_index]
    offset_in_run = keys.lo[key_index] - rows.keys.lo[at]
    hit = offset_in_run < (np.uint64(1) if rows.length is None else rows.length[at])
    if keys.hi is not None and rows.keys.hi is not None:
        hit &= keys.hi[key_index] == rows.keys.hi[at]
    key_index, at, offset_in_run = key_index[hit], at[hit], offset_in_run[hit]
    file = rows.file[at]
    pos = np.where(file < 0, 0, rows.pos[at].astype(np.int64) + offset_in_run.astype(np.int64))
    before = at.astype(np.uint64) if rows.entries_before is None else rows.entries_before[at]
    return SegmentHits(key_index, file, pos, before + offset_in_run)
