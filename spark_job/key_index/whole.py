"""Segments that are remembered whole, as ascending columns: one search finds the keys, and nothing is read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.files.immutable import ReadOnce
from spark_job.key_index.blocks import read_blocks, read_directory
from spark_job.key_index.keys import U64, Indices, Keys, last_not_above
from spark_job.key_index.ranges import open_ranges
from spark_job.key_index.segment import Layout, SegmentInfo

_SMALL_BYTES = 256 << 10  # every merge asks such a segment, and it is read in no time …
_LARGE_BYTES = 4 << 20  # … one up to here where this part of its blocks is asked for anyway
_MANY_BLOCKS = 1 / 8
_MOST_BYTES = 32 << 20  # of all that are remembered


@dataclass(frozen=True, slots=True)
class Rows:
    """All rows of a segment; where they are runs, how long each is, and the entries before it."""

    keys: Keys
    file: NDArray[np.int32]
    pos: NDArray[np.uint32]
    length: U64 | None = None
    before: U64 | None = None

    @property
    def bytes(self) -> int:
        """What they take of memory."""
        columns = (self.keys.lo, self.keys.hi, self.file, self.pos, self.length, self.before)
        return sum(column.nbytes for column in columns if column is not None)


@dataclass(frozen=True, slots=True)
class Hits:
    """Which of the keys are known, and of each its file, its position and its number among the entries."""

    asked: Indices
    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    entry: U64


_known: ReadOnce[Rows] = ReadOnce(_MOST_BYTES, lambda rows: rows.bytes)


def is_at_hand(segment: SegmentInfo) -> bool:
    """Whether all of a segment is remembered, or so small that it should be."""
    return segment.payload.length <= _SMALL_BYTES or _known.find(segment.path) is not None


def is_worth_it(segment: SegmentInfo, blocks: int) -> bool:
    """Whether to read all of a segment, of which so many blocks are asked for."""
    return segment.payload.length <= _LARGE_BYTES and blocks >= _MANY_BLOCKS * segment.geometry.blocks


def read_rows(io: FileIO, segment: SegmentInfo) -> Rows:
    """All rows of a segment, read once and then remembered."""
    return _known.get(segment.path, lambda: _read(io, segment))


def _read(io: FileIO, segment: SegmentInfo) -> Rows:
    directory = read_directory(io, segment)
    with open_ranges(io, segment.path) as source:
        blocks = read_blocks(source, segment, directory, np.arange(segment.geometry.blocks))
    # Only the last block is not full.
    columns = {name: values.reshape(-1)[: segment.geometry.rows] for name, values in blocks.columns.items()}
    high = columns.get("key_hi")
    keys = Keys(columns["key_lo"].astype(np.uint64), None if high is None else high.astype(np.uint64))
    file, pos = columns["file"].astype(np.int32), columns["pos"].astype(np.uint32)
    if segment.layout is not Layout.RUNS:
        return Rows(keys, file, pos)
    length = columns["length"].astype(np.uint64)
    return Rows(keys, file, pos, length, np.cumsum(length) - length)


def search_rows(rows: Rows, keys: Keys) -> Hits:
    """Looks up keys: the greatest row that is not above each of them, and whether it holds the key."""
    at = last_not_above(rows.keys, keys)
    asked = np.flatnonzero(at >= 0)
    at = at[asked]
    into = keys.lo[asked] - rows.keys.lo[at]
    hit = into < (np.uint64(1) if rows.length is None else rows.length[at])
    if keys.hi is not None and rows.keys.hi is not None:
        hit &= keys.hi[asked] == rows.keys.hi[at]
    asked, at, into = asked[hit], at[hit], into[hit]
    file = rows.file[at]
    pos = np.where(file < 0, 0, rows.pos[at].astype(np.int64) + into.astype(np.int64))
    before = at.astype(np.uint64) if rows.before is None else rows.before[at]
    return Hits(asked, file, pos, before + into)
