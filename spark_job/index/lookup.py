"""Finds keys in segments whose key ranges do not overlap.

1. The directory of each segment gives the block that may contain a key.
2. Only these blocks are read, a limited number at a time, the blocks of all segments together.
3. One vectorized binary search finds all keys in their blocks.

Small segments skip these steps: `segment_cache` keeps them in memory. Apart from reads, each step runs once for all
segments with one block layout. So many small segments cost about as much as one large segment.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
from pyiceberg.io import FileIO

from spark_job.columns.arrays import U64, Indices
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
from spark_job.index.damaged_segment import reading_segment
from spark_job.index.found_keys import FoundKeys, concat_found_keys
from spark_job.index.keys import Keys, find_in_runs, floor_indices, less_or_equal
from spark_job.index.segment import BLOCK_ROWS, Layout, SegmentInfo
from spark_job.index.segment_cache import (
    is_cached_or_small,
    read_segment_rows,
    search_segment_rows,
    should_cache,
)
from spark_job.storage.parallel import map_parallel


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
        """Return whether the lookup touches so many blocks that the whole segment is read and cached."""
        return should_cache(self.segment, int(np.count_nonzero(np.diff(self.block, prepend=-1))))


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Blocks of several segments with one layout. The arrays have one element per requested block.

    - `matrix_row`: the block's row in the matrices of `blocks`
    - `segment_index`: its segment
    - `entries_before`: the number of entries before it in the segment
    """

    blocks: Blocks
    layout: Layout
    matrix_row: Indices
    segment_index: Indices
    entries_before: U64


def find_keys(io: FileIO, segments: Sequence[SegmentInfo], keys: Keys) -> FoundKeys:
    """Return the keys that these segments contain. Keys must be ascending, key ranges of segments must not overlap."""
    candidates_by_layout: dict[Hashable, list[_Candidate]] = {}
    cached: list[_Candidate] = []
    ranges = keys.slices_between([(segment.first_key, segment.last_key) for segment in segments])
    for segment_index, (segment, key_range) in enumerate(zip(segments, ranges, strict=True)):
        if key_range.start < key_range.stop:
            candidate = _Candidate(segment_index, segment, key_range)
            if is_cached_or_small(segment):
                cached.append(candidate)
            else:
                candidates_by_layout.setdefault(segment.block_layout, []).append(candidate)
    parts = _find_in_cached(io, cached, keys)
    for candidates in candidates_by_layout.values():
        parts += _find_in_blocks(io, candidates, keys)
    return concat_found_keys(parts)


def _find_in_cached(io: FileIO, candidates: Sequence[_Candidate], keys: Keys) -> list[FoundKeys]:
    """Search segments that are cached, or are read and cached now."""
    if not candidates:
        return []
    return map_parallel(partial(_search_cached, io, keys), candidates, candidates[0].segment.path)


def _search_cached(io: FileIO, keys: Keys, candidate: _Candidate) -> FoundKeys:
    with reading_segment(candidate.segment.path):
        rows = read_segment_rows(io, candidate.segment)
    found = search_segment_rows(rows, keys.take(candidate.key_range), candidate.segment_index)
    return replace(found, key_index=found.key_index + candidate.key_range.start)


def _find_in_blocks(io: FileIO, candidates: list[_Candidate], keys: Keys) -> list[FoundKeys]:
    """Search segments with one block layout, a limited number of blocks at a time.

    Blocks get one numbering over all segments: block b of segment s is `bases[s] + b`. `block_numbers` are the
    distinct blocks to read, and `block_of_key[k]` is the index in `block_numbers` of the block of key k.
    """
    candidates = sorted(candidates, key=lambda candidate: candidate.key_range.start)
    all_lookups = map_parallel(partial(_choose_blocks, io, keys), candidates, candidates[0].segment.path)
    parts = _find_in_cached(io, [lookup.candidate for lookup in all_lookups if lookup.is_dense], keys)
    lookups = [lookup for lookup in all_lookups if not lookup.is_dense]
    if not lookups:
        return parts
    bases = np.cumsum([0, *(lookup.segment.geometry.blocks for lookup in lookups)])
    key_index = np.concatenate([lookup.key_index for lookup in lookups])
    block = np.concatenate([base + lookup.block for base, lookup in zip(bases[:-1], lookups, strict=True)])
    is_next = np.diff(block, prepend=-1) > 0
    block_numbers, block_of_key = block[is_next], np.cumsum(is_next) - 1
    for start in range(0, len(block_numbers), BLOCKS_PER_READ):
        chunk_numbers = block_numbers[start : start + BLOCKS_PER_READ]
        first, end = np.searchsorted(block_of_key, [start, start + len(chunk_numbers)])
        chunk = _read_chunk(io, lookups, bases, chunk_numbers)
        parts.append(_search(chunk, keys, key_index[first:end], block_of_key[first:end] - start))
    return parts


def _choose_blocks(io: FileIO, keys: Keys, candidate: _Candidate) -> _SegmentLookup:
    with reading_segment(candidate.segment.path):
        directory = read_directory(io, candidate.segment)
    block = floor_indices(directory.first, keys.take(candidate.key_range))
    inside = np.flatnonzero(block >= 0)
    return _SegmentLookup(candidate, directory, inside + candidate.key_range.start, block[inside])


def _read_chunk(
    io: FileIO, lookups: Sequence[_SegmentLookup], bases: Indices, block_numbers: Indices
) -> _Chunk:
    """Read blocks by their numbers over all touched segments.

    `decode_blocks` puts the tails last: `matrix_row` maps each requested block to its row there.
    """
    edges = np.searchsorted(block_numbers, bases).tolist()
    reads = [
        (lookup, block_numbers[start:end] - base)
        for lookup, base, (start, end) in zip(lookups, bases[:-1], pairwise(edges), strict=True)
        if start < end
    ]
    raws = map_parallel(partial(_read_segment_blocks, io), reads, reads[0][0].segment.path)
    is_tail = np.concatenate(
        [segment_numbers >= lookup.segment.geometry.full_blocks for lookup, segment_numbers in reads]
    )
    matrix_row = np.empty(len(block_numbers), dtype=np.intp)
    matrix_row[np.argsort(is_tail, kind="stable")] = np.arange(len(block_numbers))
    return _Chunk(
        blocks=decode_blocks(raws),
        layout=reads[0][0].segment.layout,
        matrix_row=matrix_row,
        segment_index=np.repeat(
            [lookup.candidate.segment_index for lookup, _ in reads],
            [len(segment_numbers) for _, segment_numbers in reads],
        ),
        entries_before=np.concatenate(
            [lookup.directory.entries_before[segment_numbers] for lookup, segment_numbers in reads]
        ),
    )


def _read_segment_blocks(io: FileIO, lookup_and_numbers: tuple[_SegmentLookup, Indices]) -> RawBlocks:
    lookup, block_numbers = lookup_and_numbers
    with reading_segment(lookup.segment.path), open_ranges(io, lookup.segment.path) as source:
        return read_raw_blocks(source, lookup.segment, lookup.directory, block_numbers)


def _search(chunk: _Chunk, keys: Keys, key_index: Indices, block_of_key: Indices) -> FoundKeys:
    """Find in each key's block the last row whose first key is ≤ the key, and check whether the key lies within it.

    A binary search for all keys at once: `row` is the row so far, each round tries `row + step` and halves the step.
    """
    columns, block = chunk.blocks.columns, chunk.matrix_row[block_of_key]
    low, high = columns["key_lo"], columns.get("key_hi")
    searched = keys.take(key_index)
    filled_rows = chunk.blocks.filled[block]
    # The first row qualifies: the directory chose the block by it.
    row = np.zeros(len(key_index), dtype=np.intp)
    step = BLOCK_ROWS >> 1
    while step:
        candidate = row + step
        inside = np.minimum(candidate, BLOCK_ROWS - 1)
        candidate_lo = low[block, inside].astype(np.uint64)
        if high is None or searched.hi is None:
            qualifies = candidate_lo <= searched.lo
        else:
            candidate_hi = high[block, inside].astype(np.uint64)
            qualifies = less_or_equal(candidate_hi, candidate_lo, searched.hi, searched.lo)
        row = np.where(qualifies & (candidate < filled_rows), candidate, row)
        step >>= 1
    first = Keys(
        low[block, row].astype(np.uint64), None if high is None else high[block, row].astype(np.uint64)
    )
    has_runs = chunk.layout is Layout.RUNS
    length = columns["length"][block, row].astype(np.uint64) if has_runs else np.uint64(1)
    offset_in_run, is_hit = find_in_runs(searched, first, length)
    block, row, offset_in_run = block[is_hit], row[is_hit], offset_in_run[is_hit]
    if has_runs:
        lengths = columns["length"].astype(np.uint64)
        entries_before_row = (np.cumsum(lengths, axis=1) - lengths)[block, row]
    else:
        entries_before_row = row.astype(np.uint64)
    file = columns["file"][block, row].astype(np.int32)
    pos = np.where(file < 0, 0, columns["pos"][block, row].astype(np.int64) + offset_in_run.astype(np.int64))
    block_of_hit = block_of_key[is_hit]
    return FoundKeys(
        key_index[is_hit],
        chunk.segment_index[block_of_hit],
        file,
        pos,
        chunk.entries_before[block_of_hit] + entries_before_row + offset_in_run,
    )
