"""Finds keys in segments whose key ranges do not overlap.

1. The directory of each segment gives the block that may contain a key.
2. Only these blocks are read, a limited number at a time, the blocks of all segments together.
3. One vectorized binary search finds all keys in their blocks.

Small segments skip these steps: `segment_cache` keeps them in memory. Apart from reads, each step runs once for all
segments with one block layout. So many small segments cost about as much as one large segment.
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

    `key_index`: index among the requested keys. `segment_index`: index among the segments. `file` and `pos`: the key's
    row, with file −1 for a tombstone. `entry`: its entry number in the segment.
    """

    key_index: Indices
    segment_index: Indices
    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    entry: U64

    def take(self, mask: Mask) -> FoundKeys:
        """Return the keys that the mask selects."""
        return FoundKeys(
            self.key_index[mask], self.segment_index[mask], self.file[mask], self.pos[mask], self.entry[mask]
        )


_NO_INDICES = np.empty(0, np.intp)
_NOTHING = FoundKeys(
    _NO_INDICES, _NO_INDICES, np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint64)
)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A segment, its index, and the slice of the requested keys that lies in its key range."""

    segment_index: int
    segment: SegmentInfo
    key_range: slice


@dataclass(frozen=True, slots=True)
class _SegmentLookup:
    """A segment with its directory. `key_index`: the keys that one of its blocks may contain; `block`: which block."""

    candidate: _Candidate
    directory: BlockDirectory
    key_index: Indices
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
    segment_index: Indices
    entries_before: U64


def find_keys(io: FileIO, segments: Sequence[SegmentInfo], keys: Keys) -> FoundKeys:
    """Look up keys, which must be ascending, in segments whose key ranges do not overlap."""
    by_layout: dict[Hashable, list[_Candidate]] = {}
    cached: list[_Candidate] = []
    ranges = keys.slices([(segment.first_key, segment.last_key) for segment in segments])
    for segment_index, (segment, key_range) in enumerate(zip(segments, ranges, strict=True)):
        if key_range.start < key_range.stop:
            candidates = (
                cached if is_cached_or_small(segment) else by_layout.setdefault(segment.block_layout, [])
            )
            candidates.append(_Candidate(segment_index, segment, key_range))
    parts = _find_in_cached(io, cached, keys)
    return _join(
        [
            *parts,
            *(part for candidates in by_layout.values() for part in _find_in_blocks(io, candidates, keys)),
        ]
    )


def _find_in_cached(io: FileIO, candidates: Sequence[_Candidate], keys: Keys) -> list[FoundKeys]:
    """Search segments that are cached, or are read and cached now."""
    if not candidates:
        return []
    return map_parallel(partial(_search_cached, io, keys), candidates, candidates[0].segment.path)


def _search_cached(io: FileIO, keys: Keys, candidate: _Candidate) -> FoundKeys:
    with reading_segment(candidate.segment.path):
        rows = read_segment_rows(io, candidate.segment)
    hits = search_segment_rows(rows, keys.take(candidate.key_range))
    segment_index = np.full(len(hits.key_index), candidate.segment_index, dtype=np.intp)
    return FoundKeys(
        hits.key_index + candidate.key_range.start, segment_index, hits.file, hits.pos, hits.entry
    )


def _find_in_blocks(io: FileIO, candidates: list[_Candidate], keys: Keys) -> list[FoundKeys]:
    """Search segments with one block layout, a limited number of blocks at a time.

    Blocks get one numbering over all segments: block b of segment s is `bases[s] + b`. `numbers` are the distinct
    blocks to read, and `block_of_key[k]` is the index in `numbers` of the block of key k.
    """
    candidates = sorted(candidates, key=lambda candidate: candidate.key_range.start)
    all_lookups = map_parallel(partial(_choose_blocks, io, keys), candidates, candidates[0].segment.path)
    found = _find_in_cached(io, [lookup.candidate for lookup in all_lookups if lookup.is_dense], keys)
    lookups = [lookup for lookup in all_lookups if not lookup.is_dense]
    if not lookups:
        return found
    bases = np.cumsum([0, *(lookup.segment.geometry.blocks for lookup in lookups)])
    key_index = np.concatenate([lookup.key_index for lookup in lookups])
    block = np.concatenate([base + lookup.block for base, lookup in zip(bases[:-1], lookups, strict=True)])
    is_next = np.diff(block, prepend=-1) > 0
    numbers, block_of_key = block[is_next], np.cumsum(is_next) - 1
    for start in range(0, len(numbers), BLOCKS_PER_READ):
        chunk = numbers[start : start + BLOCKS_PER_READ]
        first, end = np.searchsorted(block_of_key, [start, start + len(chunk)])
        read = _read_chunk(io, lookups, bases, chunk)
        found.append(_search(read, keys, key_index[first:end], block_of_key[first:end] - start))
    return found


def _choose_blocks(io: FileIO, keys: Keys, candidate: _Candidate) -> _SegmentLookup:
    with reading_segment(candidate.segment.path):
        directory = read_directory(io, candidate.segment)
    block = floor_indices(directory.first, keys.take(candidate.key_range))
    inside = np.flatnonzero(block >= 0)
    return _SegmentLookup(candidate, directory, inside + candidate.key_range.start, block[inside])


def _read_chunk(io: FileIO, lookups: Sequence[_SegmentLookup], bases: Indices, numbers: Indices) -> _Chunk:
    """Read blocks by their numbers over all touched segments.

    `decode_blocks` puts the tails last: `row` maps each requested block to its row there.
    """
    edges = np.searchsorted(numbers, bases).tolist()
    pieces = [
        (lookup, numbers[start:end] - base)
        for lookup, base, (start, end) in zip(lookups, bases[:-1], pairwise(edges), strict=True)
        if start < end
    ]
    raws = map_parallel(partial(_read_piece, io), pieces, pieces[0][0].segment.path)
    is_tail = np.concatenate(
        [block_numbers >= lookup.segment.geometry.full_blocks for lookup, block_numbers in pieces]
    )
    row = np.empty(len(numbers), dtype=np.intp)
    row[np.argsort(is_tail, kind="stable")] = np.arange(len(numbers))
    return _Chunk(
        blocks=decode_blocks(raws),
        layout=pieces[0][0].segment.layout,
        row=row,
        segment_index=np.repeat(
            [lookup.candidate.segment_index for lookup, _ in pieces],
            [len(block_numbers) for _, block_numbers in pieces],
        ),
        entries_before=np.concatenate(
            [lookup.directory.entries_before[block_numbers] for lookup, block_numbers in pieces]
        ),
    )


def _read_piece(io: FileIO, piece: tuple[_SegmentLookup, Indices]) -> RawBlocks:
    lookup, block_numbers = piece
    with reading_segment(lookup.segment.path), open_ranges(io, lookup.segment.path) as source:
        return read_raw_blocks(source, lookup.segment, lookup.directory, block_numbers)


def _search(chunk: _Chunk, keys: Keys, key_index: Indices, block_of_key: Indices) -> FoundKeys:
    """Find in each key's block the last row whose first key is ≤ the key, and check whether the key lies within it.

    A binary search for all keys at once: `at` is the row so far, each round tries `at + step` and halves the step.
    """
    blocks, row = chunk.blocks, chunk.row[block_of_key]
    low = blocks.columns["key_lo"]
    high = blocks.columns.get("key_hi")
    key_lo = keys.lo[key_index]
    key_hi = None if keys.hi is None else keys.hi[key_index]
    # The first row qualifies: the directory chose the block by it.
    at = np.zeros(len(key_index), dtype=np.intp)
    step = BLOCK_ROWS >> 1
    while step:
        candidate = at + step
        inside = np.minimum(candidate, BLOCK_ROWS - 1)
        lo = low[row, inside].astype(np.uint64)
        if high is None or key_hi is None:
            qualifies = lo <= key_lo
        else:
            qualifies = less_or_equal(high[row, inside].astype(np.uint64), lo, key_hi, key_lo)
        at = np.where(qualifies & (candidate < blocks.filled[row]), candidate, at)
        step >>= 1
    offset_in_run = key_lo - low[row, at].astype(np.uint64)
    runs = chunk.layout is Layout.RUNS
    length = blocks.columns["length"][row, at].astype(np.uint64) if runs else np.uint64(1)
    hit = offset_in_run < length
    if high is not None and key_hi is not None:
        hit &= high[row, at].astype(np.uint64) == key_hi
    row, at, offset_in_run = row[hit], at[hit], offset_in_run[hit]
    entry = chunk.entries_before[block_of_key[hit]]
    if runs:
        lengths = blocks.columns["length"].astype(np.uint64)
        entry = entry + (np.cumsum(lengths, axis=1) - lengths)[row, at]
    else:
        entry = entry + at.astype(np.uint64)
    file = blocks.columns["file"][row, at].astype(np.int32)
    pos = np.where(
        file < 0, 0, blocks.columns["pos"][row, at].astype(np.int64) + offset_in_run.astype(np.int64)
    )
    return FoundKeys(key_index[hit], chunk.segment_index[block_of_key[hit]], file, pos, entry + offset_in_run)


def _join(parts: list[FoundKeys]) -> FoundKeys:
    if len(parts) == 1:
        return parts[0]
    parts = parts or [_NOTHING]
    return FoundKeys(
        np.concatenate([part.key_index for part in parts]),
        np.concatenate([part.segment_index for part in parts]),
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.pos for part in parts]),
        np.concatenate([part.entry for part in parts]),
    )
