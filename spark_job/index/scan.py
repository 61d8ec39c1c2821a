"""Reads a key range of a segment as entries, with runs expanded, for index merges and for the deep check."""

from __future__ import annotations

import numpy as np
from pyiceberg.io import FileIO

from spark_job.index.blocks import BLOCKS_PER_READ, Blocks, read_blocks, read_directory
from spark_job.index.byte_ranges import open_ranges
from spark_job.index.keys import U64, Keys, concat_keys
from spark_job.index.orders import read_orders
from spark_job.index.segment import BLOCK_ROWS, Entries, Layout, SegmentInfo

_LOW_HALF = (1 << 64) - 1


def read_segment_entries(
    io: FileIO, segment: SegmentInfo, first: int | None = None, last: int | None = None
) -> Entries:
    """Return the entries from key `first` to key `last`, within the segment's valid range.

    `file` in the result is an ordinal of the segment, not of the root.
    """
    first = segment.first_key if first is None else max(first, segment.first_key)
    last = segment.last_key if last is None else min(last, segment.last_key)
    directory = read_directory(io, segment)
    inside = directory.first.bounds(first, last)
    numbers = np.arange(max(inside.start - 1, 0), inside.stop, dtype=np.intp)
    parts: list[tuple[Entries, U64]] = []
    with open_ranges(io, segment.path) as source:
        for start in range(0, len(numbers), BLOCKS_PER_READ):
            chunk = numbers[start : start + BLOCKS_PER_READ]
            blocks = read_blocks(source, segment, directory, chunk)
            parts.append(_expand_runs(segment, blocks, directory.entries_before[chunk], first, last))
    width = len(segment.greatest_order)
    if not parts:
        return _no_entries(segment, width)
    entry = np.concatenate([numbers for _, numbers in parts])
    orders = np.empty((0, width), dtype=np.uint64)
    if len(entry):
        orders = read_orders(io, segment.path, segment.orders, entry, width)
    return Entries(
        keys=concat_keys([part.keys for part, _ in parts]),
        file=np.concatenate([part.file for part, _ in parts]),
        pos=np.concatenate([part.pos for part, _ in parts]),
        orders=orders,
    )


def _no_entries(segment: SegmentInfo, width: int) -> Entries:
    wide = segment.key_definition.codec.is_wide
    empty = np.empty(0, dtype=np.uint64)
    return Entries(
        Keys(empty, empty if wide else None),
        np.empty(0, dtype=np.int32),
        np.empty(0, dtype=np.int64),
        np.empty((0, width), dtype=np.uint64),
    )


def _expand_runs(
    segment: SegmentInfo, blocks: Blocks, before: U64, first: int, last: int
) -> tuple[Entries, U64]:
    """Return the entries of some blocks within a key range, without orders, and the entry number of each.

    Each row is a run (in the layout `entries`: of length 1). `skip` is the part of a run below `first`, `count` the
    part within the range. `np.repeat` copies the row `count` times; `step` is the position within the run.
    """
    real = np.arange(BLOCK_ROWS) < blocks.filled[:, None]
    flat = {name: values[real] for name, values in blocks.columns.items()}
    lo = flat["key_lo"].astype(np.uint64)
    hi = flat["key_hi"].astype(np.uint64) if "key_hi" in flat else None
    runs = segment.layout is Layout.RUNS
    length = flat["length"].astype(np.uint64) if runs else np.ones(len(lo), dtype=np.uint64)
    filled = blocks.filled
    row_before = np.repeat(np.cumsum(filled) - filled, filled)
    all_before = np.cumsum(length) - length
    number = np.repeat(before, filled) + all_before - all_before[row_before]
    # Clipped before they are expanded: a run may be far longer than the range.
    skip = _steps_below(lo, hi, length, first)
    keep = _steps_below(lo, hi, length, last + 1) - skip
    count = keep.astype(np.intp)
    step = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    step = step.astype(np.uint64) + np.repeat(skip, count)
    file = np.repeat(flat["file"].astype(np.int32), count)
    pos = np.repeat(flat["pos"].astype(np.int64), count) + step.astype(np.int64)
    entries = Entries(
        keys=Keys(np.repeat(lo, count) + step, None if hi is None else np.repeat(hi, count)),
        file=file,
        pos=np.where(file < 0, 0, pos),
        orders=np.empty((len(file), 0), dtype=np.uint64),
    )
    return entries, np.repeat(number, count) + step


def _steps_below(lo: U64, hi: U64 | None, length: U64, key: int) -> U64:
    """Return how many keys of each run are less than this key. `minimum` keeps unsigned differences from wrapping."""
    if hi is None:
        if key > _LOW_HALF:
            return length
        return np.where(
            lo < key, np.minimum(np.uint64(key) - np.minimum(lo, np.uint64(key)), length), np.uint64(0)
        )
    if key >> 128:
        return length
    high, low = np.uint64(key >> 64), np.uint64(key & _LOW_HALF)
    within = np.where(lo < low, np.minimum(low - np.minimum(lo, low), length), np.uint64(0))
    return np.where(hi < high, length, np.where(hi > high, np.uint64(0), within))
