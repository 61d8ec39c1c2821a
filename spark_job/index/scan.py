"""Reads a key range of a segment as entries, with runs expanded, for index merges and for the deep check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pyiceberg.io import FileIO

from spark_job.columns.arrays import U64
from spark_job.index.blocks import BLOCKS_PER_READ, Blocks, read_blocks, read_directory
from spark_job.index.byte_ranges import open_ranges
from spark_job.index.keys import Keys
from spark_job.index.orders import read_orders
from spark_job.index.segment import BLOCK_ROWS, Entries, Layout, SegmentInfo, concat_entries

_LOW_HALF = (1 << 64) - 1


def read_segment_entries(
    io: FileIO, segment: SegmentInfo, first_key: int | None = None, last_key: int | None = None
) -> Entries:
    """Return the entries from `first_key` to `last_key`, within the segment's valid range.

    `file` in the result is an ordinal of the segment, not of the root.
    """
    first_key = segment.first_key if first_key is None else max(first_key, segment.first_key)
    last_key = segment.last_key if last_key is None else min(last_key, segment.last_key)
    directory = read_directory(io, segment)
    inside = directory.first.slice_between(first_key, last_key)
    block_numbers = np.arange(max(inside.start - 1, 0), inside.stop, dtype=np.intp)
    parts: list[tuple[Entries, U64]] = []
    with open_ranges(io, segment.path) as source:
        for start in range(0, len(block_numbers), BLOCKS_PER_READ):
            chunk = block_numbers[start : start + BLOCKS_PER_READ]
            blocks = read_blocks(source, segment, directory, chunk)
            parts.append(_expand_runs(segment, blocks, directory.entries_before[chunk], first_key, last_key))
    width = len(segment.greatest_order)
    if not parts:
        return _no_entries(segment, width)
    entry_numbers = np.concatenate([part_numbers for _, part_numbers in parts])
    orders = np.empty((0, width), dtype=np.uint64)
    if len(entry_numbers):
        orders = read_orders(io, segment.path, segment.orders, entry_numbers, width)
    return replace(concat_entries([entries for entries, _ in parts]), orders=orders)


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
    segment: SegmentInfo, blocks: Blocks, entries_before_block: U64, first_key: int, last_key: int
) -> tuple[Entries, U64]:
    """Return the entries of some blocks within a key range, without orders, and the entry number of each.

    Each row is a run (in the layout `entries`: of length 1). `skip` is the part of a run below `first_key`, `count` the
    part within the range. `np.repeat` copies the row `count` times; `step` is the position within the run.
    `entry_number` is that of a run's first key.
    """
    is_filled = np.arange(BLOCK_ROWS) < blocks.filled[:, None]
    flat = {name: values[is_filled] for name, values in blocks.columns.items()}
    lo = flat["key_lo"].astype(np.uint64)
    hi = flat["key_hi"].astype(np.uint64) if "key_hi" in flat else None
    has_runs = segment.layout is Layout.RUNS
    length = flat["length"].astype(np.uint64) if has_runs else np.ones(len(lo), dtype=np.uint64)
    filled = blocks.filled
    first_row_of_block = np.repeat(np.cumsum(filled) - filled, filled)
    entries_before_row = np.cumsum(length) - length
    entries_in_block_before_row = entries_before_row - entries_before_row[first_row_of_block]
    entry_number = np.repeat(entries_before_block, filled) + entries_in_block_before_row
    # Clipped before they are expanded: a run may be far longer than the range.
    skip = _steps_below(lo, hi, length, first_key)
    count_in_range = _steps_below(lo, hi, length, last_key + 1) - skip
    count = count_in_range.astype(np.intp)
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
    return entries, np.repeat(entry_number, count) + step


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
