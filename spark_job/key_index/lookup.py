"""Finds keys in segments that do not overlap: directories, then only the touched blocks, then one binary search.

All but reading is done for the segments together: what many small ones cost is little more than one large one does.
Those that are remembered whole need none of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.files.round_trips import for_each
from spark_job.key_index.blocks import (
    BLOCKS_AT_ONCE,
    Blocks,
    Directory,
    Raw,
    lay_out,
    read_directory,
    read_raw,
)
from spark_job.key_index.damage import reading_segment
from spark_job.key_index.keys import U64, Indices, Keys, Mask, last_not_above, not_above
from spark_job.key_index.ranges import open_ranges
from spark_job.key_index.segment import BLOCK_ROWS, Layout, SegmentInfo
from spark_job.key_index.whole import is_at_hand, is_worth_it, read_rows, search_rows


@dataclass(frozen=True, slots=True)
class Found:
    """The keys that are known: which of those asked for, the segment of each (its place among those that were asked),
    and the row or tombstone."""

    asked: Indices
    of: Indices
    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    entry: U64

    def take(self, places: Mask) -> Found:
        """Some of them."""
        return Found(
            self.asked[places], self.of[places], self.file[places], self.pos[places], self.entry[places]
        )


_NO_PLACE = np.empty(0, np.intp)
_NOTHING = Found(_NO_PLACE, _NO_PLACE, np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint64))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A segment, its place, and which of the keys lie in its range."""

    of: int
    segment: SegmentInfo
    within: slice


@dataclass(frozen=True, slots=True)
class _Touched:
    """The same: the keys that one of its blocks may hold, and which."""

    one: _Asked
    directory: Directory
    asked: Indices
    block: Indices

    @property
    def segment(self) -> SegmentInfo:
        """The segment."""
        return self.one.segment

    @property
    def is_much(self) -> bool:
        """Whether so many blocks are touched that all of them may as well be read."""
        return is_worth_it(self.segment, int(np.count_nonzero(np.diff(self.block, prepend=-1))))


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Blocks of several segments; of each that was asked for its row, its segment and the entries before it."""

    blocks: Blocks
    layout: Layout
    row: Indices
    of: Indices
    before: U64


def find_keys(io: FileIO, segments: Sequence[SegmentInfo], keys: Keys) -> Found:
    """Looks up keys, which must be ascending, in segments whose ranges do not overlap."""
    alike: dict[Hashable, list[_Asked]] = {}
    whole: list[_Asked] = []
    ranges = keys.slices([(segment.first_key, segment.last_key) for segment in segments])
    for of, (segment, within) in enumerate(zip(segments, ranges, strict=True)):
        if within.start < within.stop:
            some = whole if is_at_hand(segment) else alike.setdefault(segment.alike, [])
            some.append(_Asked(of, segment, within))
    parts = _find_whole(io, whole, keys)
    return _join([*parts, *(part for some in alike.values() for part in _find_alike(io, some, keys))])


def _find_whole(io: FileIO, some: Sequence[_Asked], keys: Keys) -> list[Found]:
    """The answers of segments that are remembered whole, or shall be."""
    return for_each(partial(_ask_whole, io, keys), some, some[0].segment.path) if some else []


def _ask_whole(io: FileIO, keys: Keys, one: _Asked) -> Found:
    with reading_segment(one.segment.path):
        rows = read_rows(io, one.segment)
    hits = search_rows(rows, keys.take(one.within))
    of = np.full(len(hits.asked), one.of, dtype=np.intp)
    return Found(hits.asked + one.within.start, of, hits.file, hits.pos, hits.entry)


def _find_alike(io: FileIO, some: list[_Asked], keys: Keys) -> list[Found]:
    """The answers of segments whose blocks have one layout, chunk by chunk."""
    some = sorted(some, key=lambda one: one.within.start)
    every = for_each(partial(_touch, io, keys), some, some[0].segment.path)
    found = _find_whole(io, [one.one for one in every if one.is_much], keys)
    touched = [one for one in every if not one.is_much]
    if not touched:
        return found
    bases = np.cumsum([0, *(one.segment.geometry.blocks for one in touched)])
    asked = np.concatenate([one.asked for one in touched])
    block = np.concatenate([base + one.block for base, one in zip(bases[:-1], touched, strict=True)])
    is_next = np.diff(block, prepend=-1) > 0
    numbers, place = block[is_next], np.cumsum(is_next) - 1
    for start in range(0, len(numbers), BLOCKS_AT_ONCE):
        chunk = numbers[start : start + BLOCKS_AT_ONCE]
        first, end = np.searchsorted(place, [start, start + len(chunk)])
        read = _read_chunk(io, touched, bases, chunk)
        found.append(_search(read, keys, asked[first:end], place[first:end] - start))
    return found


def _touch(io: FileIO, keys: Keys, one: _Asked) -> _Touched:
    with reading_segment(one.segment.path):
        directory = read_directory(io, one.segment)
    block = last_not_above(directory.first, keys.take(one.within))
    inside = np.flatnonzero(block >= 0)
    return _Touched(one, directory, inside + one.within.start, block[inside])


def _read_chunk(io: FileIO, touched: Sequence[_Touched], bases: Indices, numbers: Indices) -> _Chunk:
    """Blocks by their numbers among all those of the touched segments."""
    edges = np.searchsorted(numbers, bases).tolist()
    pieces = [
        (one, numbers[start:end] - base)
        for one, base, (start, end) in zip(touched, bases[:-1], pairwise(edges), strict=True)
        if start < end
    ]
    raws = for_each(partial(_read_piece, io), pieces, pieces[0][0].segment.path)
    is_tail = np.concatenate([own >= one.segment.geometry.full_blocks for one, own in pieces])
    row = np.empty(len(numbers), dtype=np.intp)
    row[np.argsort(is_tail, kind="stable")] = np.arange(len(numbers))
    return _Chunk(
        blocks=lay_out(raws),
        layout=pieces[0][0].segment.layout,
        row=row,
        of=np.repeat([one.one.of for one, _ in pieces], [len(own) for _, own in pieces]),
        before=np.concatenate([one.directory.entries_before[own] for one, own in pieces]),
    )


def _read_piece(io: FileIO, piece: tuple[_Touched, Indices]) -> Raw:
    one, numbers = piece
    with reading_segment(one.segment.path), open_ranges(io, one.segment.path) as source:
        return read_raw(source, one.segment, one.directory, numbers)


def _search(chunk: _Chunk, keys: Keys, asked: Indices, place: Indices) -> Found:
    """The greatest row of each key's block that is not above the key, and whether it holds the key."""
    blocks, row = chunk.blocks, chunk.row[place]
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
    runs = chunk.layout is Layout.RUNS
    reach = blocks.columns["length"][row, at].astype(np.uint64) if runs else np.uint64(1)
    hit = into < reach
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
    return Found(asked[hit], chunk.of[place[hit]], file, pos, before + into)


def _join(parts: list[Found]) -> Found:
    if len(parts) == 1:
        return parts[0]
    parts = parts or [_NOTHING]
    return Found(
        np.concatenate([part.asked for part in parts]),
        np.concatenate([part.of for part in parts]),
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.pos for part in parts]),
        np.concatenate([part.entry for part in parts]),
    )
