"""Checks segments of the key index: their directories only, or all of their contents."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from icemirror.errors import Corrupt
from spark_job.index.blocks import BLOCKS_PER_READ, Blocks, read_blocks, read_directory
from spark_job.index.byte_ranges import open_ranges
from spark_job.index.damaged_segment import DamagedSegment, reading_segment
from spark_job.index.keys import Keys
from spark_job.index.orders import read_orders
from spark_job.index.puffin import read_blobs, read_span
from spark_job.index.segment import BLOCK_ROWS, SegmentInfo

_READERS = 8
_ORDERS_AT_ONCE = 1 << 20
_MAX_PAYLOAD_BYTES = 4 << 30


def check_directories(io: FileIO, segments: Sequence[SegmentInfo]) -> list[DamagedSegment]:
    """Return the segments that are missing, have a wrong length, or a directory with a wrong checksum."""
    with ThreadPoolExecutor(_READERS) as pool:
        return [
            damage for damage in pool.map(lambda segment: _check_directory(io, segment), segments) if damage
        ]


def _check_directory(io: FileIO, segment: SegmentInfo) -> DamagedSegment | None:
    try:
        with reading_segment(segment.path):
            file_bytes = len(io.new_input(segment.path))
            if file_bytes != segment.bytes:
                raise Corrupt(f"a segment has {file_bytes} bytes, expected {segment.bytes}: {segment.path}")
            read_directory(io, segment)
    except DamagedSegment as error:
        return error
    return None


def check_contents(io: FileIO, segment: SegmentInfo) -> DamagedSegment | None:
    """Return what is wrong with a segment: directory, blocks, orders or footers; None if it is intact."""
    try:
        with reading_segment(segment.path):
            _require_intact(io, segment)
    except DamagedSegment as error:
        return error
    return None


def _require_intact(io: FileIO, segment: SegmentInfo) -> None:
    path = segment.path
    directory = read_directory(io, segment)
    block_numbers = np.arange(segment.geometry.blocks, dtype=np.intp)
    entries, last_key = 0, -1
    with open_ranges(io, path) as source:
        for start in range(0, len(block_numbers), BLOCKS_PER_READ):
            chunk_numbers = block_numbers[start : start + BLOCKS_PER_READ]
            blocks = read_blocks(source, segment, directory, chunk_numbers)
            lengths = blocks.columns.get("length")
            entries += int(blocks.filled.sum()) if lengths is None else int(lengths.astype(np.int64).sum())
            keys = _block_keys(blocks)
            first_rows = np.cumsum(blocks.filled) - blocks.filled
            if not _are_equal(keys.take(first_rows), directory.first.take(chunk_numbers)):
                raise Corrupt(f"a block does not start with the key in the directory: {path}")
            if keys.at(0) <= last_key or not _are_ascending(keys):
                raise Corrupt(f"the keys of a segment are not sorted, so lookups miss some: {path}")
            last_key = keys.at(-1)
    if entries != segment.entries:
        raise Corrupt(f"a segment has {entries} entries, but {segment.entries} in the root: {path}")
    for start in range(0, segment.entries, _ORDERS_AT_ONCE):
        entry_numbers = np.arange(start, min(start + _ORDERS_AT_ONCE, segment.entries), dtype=np.uint64)
        read_orders(io, path, segment.orders, entry_numbers, len(segment.greatest_order))
    spans = {blob.span for blob in read_blobs(io, path)}
    if spans != {segment.payload, segment.directory, segment.orders}:
        raise Corrupt(f"the footer of a segment lists other blobs than the root: {path}")
    try:
        footer = pq.read_metadata(pa.BufferReader(read_span(io, path, segment.payload, _MAX_PAYLOAD_BYTES)))
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(
            f"the entries of a segment are not valid Parquet ({type(error).__name__}): {path}"
        ) from error
    if footer.num_rows != segment.geometry.rows:
        raise Corrupt(
            f"a segment has {footer.num_rows} rows, but {segment.geometry.rows} in the root: {path}"
        )


def _block_keys(blocks: Blocks) -> Keys:
    """Return the keys of all rows that are not padding."""
    is_filled = np.arange(BLOCK_ROWS) < blocks.filled[:, None]
    high = blocks.columns.get("key_hi")
    low = blocks.columns["key_lo"][is_filled].astype(np.uint64)
    return Keys(low, None if high is None else high[is_filled].astype(np.uint64))


def _are_equal(left: Keys, right: Keys) -> bool:
    equal_high = left.hi is None or right.hi is None or bool((left.hi == right.hi).all())
    return equal_high and bool((left.lo == right.lo).all())


def _are_ascending(keys: Keys) -> bool:
    is_less = keys.lo[:-1] < keys.lo[1:]
    if keys.hi is not None:
        is_less = (keys.hi[:-1] < keys.hi[1:]) | ((keys.hi[:-1] == keys.hi[1:]) & is_less)
    return bool(is_less.all())
