"""Caches small segments as sorted columns, so that one binary search finds all keys without a read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.columns.arrays import U64
from spark_job.index.blocks import read_blocks, read_directory
from spark_job.index.byte_ranges import open_ranges
from spark_job.index.found_keys import FoundKeys
from spark_job.index.keys import Keys, find_in_runs, floor_indices
from spark_job.index.segment import Layout, SegmentInfo
from spark_job.storage.file_cache import FileCache

# A segment up to this size is always cached: every merge searches it.
_ALWAYS_CACHED_BYTES = 256 << 10
# A segment up to this size is cached if a lookup needs at least this share of its blocks.
_MAX_CACHED_BYTES = 4 << 20
_MIN_NEEDED_SHARE = 1 / 8
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


_cache: FileCache[SegmentRows] = FileCache(_MAX_CACHE_BYTES, lambda rows: rows.bytes)


def is_cached_or_small(segment: SegmentInfo) -> bool:
    """Return whether a segment is cached, or so small that it should be."""
    return segment.payload.length <= _ALWAYS_CACHED_BYTES or _cache.find(segment.path) is not None


def should_cache(segment: SegmentInfo, needed_blocks: int) -> bool:
    """Return whether to read and cache a whole segment of which this many blocks are needed."""
    min_blocks = _MIN_NEEDED_SHARE * segment.geometry.blocks
    return segment.payload.length <= _MAX_CACHED_BYTES and needed_blocks >= min_blocks


def read_segment_rows(io: FileIO, segment: SegmentInfo) -> SegmentRows:
    """Return all rows of a segment. They are cached."""
    return _cache.get(segment.path, lambda: _read(io, segment))


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


def search_segment_rows(rows: SegmentRows, keys: Keys, segment_index: int) -> FoundKeys:
    """Return the keys that the segment contains.

    Find the last row whose first key is ≤ the key, then check whether the key lies within it.
    """
    row = floor_indices(rows.keys, keys)
    key_index = np.flatnonzero(row >= 0)
    row = row[key_index]
    length = np.uint64(1) if rows.length is None else rows.length[row]
    offset_in_run, is_hit = find_in_runs(keys.take(key_index), rows.keys.take(row), length)
    key_index, row, offset_in_run = key_index[is_hit], row[is_hit], offset_in_run[is_hit]
    file = rows.file[row]
    entries_before = row.astype(np.uint64) if rows.entries_before is None else rows.entries_before[row]
    return FoundKeys(
        key_index,
        np.full(len(key_index), segment_index, dtype=np.intp),
        file,
        np.where(file < 0, 0, rows.pos[row].astype(np.int64) + offset_in_run.astype(np.int64)),
        entries_before + offset_in_run,
    )
