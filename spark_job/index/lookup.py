"""Finds keys in segments whose key ranges do not overlap.

1. The directory of each segment gives the block that may contain a key.
2. Only these blocks are read, a limited number at a time, the blocks of all segments together.
3. One vectorized binary search finds all keys in their blocks.

Small segments skip all this: `segment_cache` keeps them in memory. Apart from reads, all steps run once for all
segments with the same block layout, so many small segments cost about as much as one large one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.index.blocks import (
    BLOCKS_PER_READ,
    BlockDirectory,
    Blocks,
    RawBlocks,
    decode_blocks,
    read_directory,
    read_raw_blocks,
)
from spark_job.index.byte_ranges import open_ranges
from spark_job.index.keys import U64, Indices, Keys, Mask, floor_indices, less_or_equal
from spark_job.index.segment import BLOCK_ROWS, Layout, SegmentInfo, reading_segment
from spark_job.index.segment_cache import (
    is_cached_or_small,
    read_segment_rows,
    search_segment_rows,
    should_cache,
)
from spark_job.storage.parallel import map_parallel


@dataclass(frozen=True, slots=True)
class FoundKeys:
    """The keys that were found, one element per key.

    `asked`: index of the key among the requested keys. `of`: index of its segment. `file` and `pos`: its row, with file
    −1 for a tombstone. `entry`: its entry number in the segment.
    """

    asked: Indices
    of: Indices
    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    entry: U64

    def take(self, mask: Mask) -> FoundKeys:
        """Return the keys that the mask selects."""
        return FoundKeys(self.asked[mask], self.of[mask], self.file[mask], self.pos[mask], self.entry[mask])


_NO_INDICES = np.empty(0, np.intp)
_NOTHING = FoundKeys(
    _NO_INDICES, _NO_INDICES, np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint64)
)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A segment, its index, and the slice of the requested keys that lies in its key range."""

    of: int
    segment: SegmentInfo
    within: slice


@dataclass(frozen=True, slots=True)
class _Touched:
    """A segment with its directory. `asked`: the keys that one of its blocks may contain; `block`: which block."""

    candidate: _Candidate
    directory: BlockDirectory
    asked: Indices
    block: Indices

    @property
    def segment(self) -> SegmentInfo:
        """The segment."""
        return self.candidate.segment

    @property
    def is_dense(self) -> bool:
        """Whether the lookup touches so many blocks that the whole segment is read and cached."""
        return should_cache(self.segment, int(np.count_nonzero(np.diff(self.block, prepend=-1))))


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Blocks of several segments. For each requested block: its row in the matrices, its segment, entries before it."""

    blocks: Blocks
    layout: Layout
    row: Indices
    of: Indices
    before: U64


def find_keys(io: FileIO, segments: Sequence[SegmentInfo], keys: Keys) -> FoundKeys:
    """Look up keys, which must be ascending, in segments whose key ranges do not overlap."""
    by_layout: dict[Hashable, list[_Candidate]] = {}
    cached: list[_Candidate] = []
    ranges = keys.slices([(segment.first_key, segment.last_key) for segment in segments])
    for of, (segment, within) in enumerate(zip(segments, ranges, strict=True)):
        if within.start < within.stop:
            same = cached if is_cached_or_small(segment) else by_layout.setdefault(segment.block_layout, [])
            same.append(_Candidate(of, segment, within))
    parts = _find_in_cached(io, cached, keys)
    return _join([*parts, *(part for same in by_layout.values() for part in _find_in_blocks(io, same, keys))])


def _find_in_cached(io: FileIO, candidates: Sequence[_Candidate], keys: Keys) -> list[FoundKeys]:
    """Search segments that are cached, or are read and cached now."""
    if not candidates:
        return []
    return map_parallel(partial(_search_cached, io, keys), candidates, candidates[0].segment.path)


def _search_cached(io: FileIO, keys: Keys, one: _Candidate) -> FoundKeys:
    with reading_segment(one.segment.path):
        rows = read_segment_rows(io, one.segment)
    hits = search_segment_rows(rows, keys.take(one.within))
    of = np.full(len(hits.asked), one.of, dtype=np.intp)
    return FoundKeys(hits.asked + one.within.start, of, hits.file, hits.pos, hits.entry)


def _find_in_blocks(io: FileIO, candidates: list[_Candidate], keys: Keys) -> list[FoundKeys]:
    """Search segments with one block layout, a limited number of blocks at a time.

    Blocks get one numbering over all segments: block b of segment s is `bases[s] + b`. `numbers` are the distinct
    blocks to read, and `place[k]` is the index in `numbers` of the block of key k.
    """
    candidates = sorted(candidates, key=lambda one: one.within.start)
    every = map_parallel(partial(_touch, io, keys), candidates, candidates[0].segment.path)
    found = _find_in_cached(io, [one.candidate for one in every if one.is_dense], keys)
    touched = [one for one in every if not one.is_dense]
    if not touched:
        return found
    bases = np.cumsum([0, *(one.segment.geometry.blocks for one in touched)])
    asked = np.concatenate([one.asked for one in touched])
    block = np.concatenate([base + one.block for base, one in zip(bases[:-1], touched, strict=True)])
    is_next = np.diff(block, prepend=-1) > 0
    numbers, place = block[is_next], np.cumsum(is_next) - 1
    for start in range(0, len(numbers), BLOCKS_PER_READ):
        chunk = numbers[start : start + BLOCKS_PER_READ]
        first, end = np.searchsorted(place, [start, start + len(chunk)])
        read = _read_chunk(io, touched, bases, chunk)
        found.append(_search(read, keys, asked[first:end], place[first:end] - start))
    return found


def _touch(io: FileIO, keys: Keys, one: _Candidate) -> _Touched:
    with reading_segment(one.segment.path):
        directory = read_directory(io, one.segment)
    block = floor_indices(directory.first, keys.take(one.within))
    inside = np.flatnonzero(block >= 0)
    return _Touched(one, directory, inside + one.within.start, block[inside])


def _read_chunk(io: FileIO, touched: Sequence[_Touched], bases: Indices, numbers: Indices) -> _Chunk:
    """Read blocks by their numbers over all touched segments.

    `decode_blocks` puts the tails last: `row` maps each requested block to its row there.
    """
    edges = np.searchsorted(numbers, bases).tolist()
    pieces = [
        (one, numbers[start:end] - base)
        for one, base, (start, end) in zip(touched, bases[:-1], pairwise(edges), strict=True)
        if start < end
    ]
    raws = map_parallel(partial(_read_piece, io), pieces, pieces[0][0].segment.path)
    is_tail = np.concatenate([own >= one.segment.geometry.full_blocks for one, own in pieces])
    row = np.empty(len(numbers), dtype=np.intp)
    row[np.argsort(is_tail, kind="stable")] = np.arange(len(numbers))
    return _Chunk(
        blocks=decode_blocks(raws),
        layout=pieces[0][0].segment.layout,
        row=row,
        of=np.repeat([one.candidate.of for one, _ in pieces], [len(own) for _, own in pieces]),
        before=np.concatenate([one.directory.entries_before[own] for one, own in pieces]),
    )


def _read_piece(io: FileIO, piece: tuple[_Touched, Indices]) -> RawBlocks:
    one, numbers = piece
    with reading_segment(one.segment.path), open_ranges(io, one.segment.path) as source:
        return read_raw_blocks(source, one.segment, one.directory, numbers)


def _search(chunk: _Chunk, keys: Keys, asked: Indices, place: Indices) -> FoundKeys:
    """Find in each key's block the last row whose first key is ≤ the key, and check whether the key lies within it.

    A binary search for all keys at once: `at` is the row so far, each round tries `at + step` and halves the step.
    """
    blocks, row = chunk.blocks, chunk.row[place]
    low = blocks.columns["key_lo"]
    high = blocks.columns.get("key_hi")
    key_lo = keys.lo[asked]
    key_hi = None if keys.hi is None else keys.hi[asked]
    at = np.zeros(len(asked), dtype=np.intp)  # the first row qualifies: the directory chose the block by it
    step = BLOCK_ROWS >> 1
    while step:
        candidate = at + step
        inside = np.minimum(candidate, BLOCK_ROWS - 1)
        lo = low[row, inside].astype(np.uint64)
        if high is None or key_hi is None:
            ok = lo <= key_lo
        else:
            ok = less_or_equal(high[row, inside].astype(np.uint64), lo, key_hi, key_lo)
        at = np.where(ok & (candidate < blocks.filled[row]), candidate, at)
        step >>= 1
    into = key_lo - low[row, at].astype(np.uint64)
    runs = chunk.layout is Layout.RUNS
    length = blocks.columns["length"][row, at].astype(np.uint64) if runs else np.uint64(1)
    hit = into < length
    if high is not None and key_hi is not None:
        hit &= high[row, at].astype(np.uint64) == key_hi
    row, at, into = row[hit], at[hit], into[hit]
    before = chunk.before[place[hit]]
    if runs:
        lengths = blocks.columns["length"].astype(np.uint64)
        before = before + (np.cumsum(lengths, axis=1) - lengths)[row, at]
    else:
        before = before + at.astype(np.uint64)
    file = blocks.columns["file"][row, at].astype(np.int32)
    pos = np.where(file < 0, 0, blocks.columns["pos"][row, at].astype(np.int64) + into.astype(np.int64))
    return FoundKeys(asked[hit], chunk.of[place[hit]], file, pos, before + into)


def _join(parts: list[FoundKeys]) -> FoundKeys:
    if len(parts) == 1:
        return parts[0]
    parts = parts or [_NOTHING]
    return FoundKeys(
        np.concatenate([part.asked for part in parts]),
        np.concatenate([part.of for part in parts]),
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.pos for part in parts]),
        np.concatenate([part.entry for part in parts]),
    )
