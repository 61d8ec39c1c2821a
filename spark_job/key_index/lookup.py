"""Finds keys in a segment: the directory, then only the touched blocks, then one binary search for all keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.key_index.blocks import BLOCKS_AT_ONCE, Blocks, Directory, read_blocks, read_directory
from spark_job.key_index.keys import U64, Indices, Keys, Mask, last_not_above, not_above
from spark_job.key_index.ranges import open_ranges
from spark_job.key_index.segment import BLOCK_ROWS, Layout, SegmentInfo


@dataclass(frozen=True, slots=True)
class Found:
    """The keys that a segment knows: which of those asked for, and the row or tombstone of each."""

    asked: Indices
    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    entry: U64

    def take(self, places: Mask) -> Found:
        """Some of them."""
        return Found(self.asked[places], self.file[places], self.pos[places], self.entry[places])


NOTHING = Found(np.empty(0, np.intp), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint64))


def find_keys(io: FileIO, segment: SegmentInfo, keys: Keys) -> Found:
    """Looks up keys, which must be ascending."""
    directory = read_directory(io, segment)
    block_of = last_not_above(directory.first, keys)
    asked = np.flatnonzero(block_of >= 0)
    parts: list[Found] = []
    if len(asked):
        touched, place = np.unique(block_of[asked], return_inverse=True)
        with open_ranges(io, segment.path) as source:
            for start in range(0, len(touched), BLOCKS_AT_ONCE):
                chunk = touched[start : start + BLOCKS_AT_ONCE]
                here = (place >= start) & (place < start + len(chunk))
                blocks = read_blocks(source, segment, directory, chunk)
                parts.append(_search(segment, directory, blocks, keys, asked[here], place[here] - start))
    return _join(parts)


def _search(
    segment: SegmentInfo, directory: Directory, blocks: Blocks, keys: Keys, asked: Indices, row: Indices
) -> Found:
    """The greatest row of each key's block that is not above the key, and whether it holds the key."""
    low = blocks.columns["key_lo"]
    high = blocks.columns.get("key_hi")
    key_lo = keys.lo[asked]
    key_hi = None if keys.hi is None else keys.hi[asked]
    at = np.zeros(len(asked), dtype=np.intp)  # the block was chosen because its first key is not above
    step = BLOCK_ROWS >> 1
    while step:
        candidate = at + step
        inside = np.minimum(candidate, BLOCK_ROWS - 1)
        lo = low[row, inside].astype(np.uint64)
        if high is None or key_hi is None:
            ok = lo <= key_lo
        else:
            ok = not_above(high[row, inside].astype(np.uint64), lo, key_hi, key_lo)
        at = np.where(ok & (candidate < blocks.filled[row]), candidate, at)
        step >>= 1
    into = key_lo - low[row, at].astype(np.uint64)
    runs = segment.layout is Layout.RUNS
    reach = blocks.columns["length"][row, at].astype(np.uint64) if runs else np.uint64(1)
    hit = into < reach
    if high is not None and key_hi is not None:
        hit &= high[row, at].astype(np.uint64) == key_hi
    row, at, into = row[hit], at[hit], into[hit]
    before = directory.entries_before[blocks.number[row]]
    if runs:
        lengths = blocks.columns["length"].astype(np.uint64)
        before = before + (np.cumsum(lengths, axis=1) - lengths)[row, at]
    else:
        before = before + at.astype(np.uint64)
    file = blocks.columns["file"][row, at].astype(np.int32)
    pos = np.where(file < 0, 0, blocks.columns["pos"][row, at].astype(np.int64) + into.astype(np.int64))
    return Found(asked[hit], file, pos, before + into)


def _join(parts: list[Found]) -> Found:
    if len(parts) == 1:
        return parts[0]
    parts = parts or [NOTHING]
    return Found(
        np.concatenate([part.asked for part in parts]),
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.pos for part in parts]),
        np.concatenate([part.entry for part in parts]),
    )
