"""Checks everything in a segment: directory, all blocks, all pages of the orders, and both footers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from icemirror.errors import Corrupt
from spark_job.index.blocks import BLOCKS_PER_READ, Blocks, read_blocks, read_directory
from spark_job.index.byte_ranges import open_ranges
from spark_job.index.keys import Keys
from spark_job.index.orders import read_orders
from spark_job.index.puffin import read_blobs, read_span
from spark_job.index.segment import BLOCK_ROWS, DamagedSegment, SegmentInfo, reading_segment

_ORDERS_AT_ONCE = 1 << 20
_MAX_PAYLOAD_BYTES = 4 << 30


def check_segment(io: FileIO, segment: SegmentInfo) -> DamagedSegment | None:
    """Return what is wrong with a segment; None if it is intact."""
    try:
        with reading_segment(segment.path):
            _check(io, segment)
    except DamagedSegment as error:
        return error
    return None


def _check(io: FileIO, segment: SegmentInfo) -> None:
    path = segment.path
    directory = read_directory(io, segment)
    numbers = np.arange(segment.geometry.blocks, dtype=np.intp)
    entries, before = 0, -1
    with open_ranges(io, path) as source:
        for start in range(0, len(numbers), BLOCKS_PER_READ):
            chunk = numbers[start : start + BLOCKS_PER_READ]
            blocks = read_blocks(source, segment, directory, chunk)
            lengths = blocks.columns.get("length")
            entries += int(blocks.filled.sum()) if lengths is None else int(lengths.astype(np.int64).sum())
            keys = _keys(blocks)
            firsts = np.cumsum(blocks.filled) - blocks.filled
            if not _same(keys.take(firsts), directory.first.take(chunk)):
                raise Corrupt(f"a block does not start with the key in the directory: {path}")
            if keys.at(0) <= before or not _ascend(keys):
                raise Corrupt(f"the keys of a segment are not sorted, so lookups miss some: {path}")
            before = keys.at(-1)
    if entries != segment.entries:
        raise Corrupt(f"a segment has {entries} entries, but {segment.entries} in the root: {path}")
    for start in range(0, segment.entries, _ORDERS_AT_ONCE):
        wanted = np.arange(start, min(start + _ORDERS_AT_ONCE, segment.entries), dtype=np.uint64)
        read_orders(io, path, segment.orders, wanted, len(segment.greatest_order))
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


def _keys(blocks: Blocks) -> Keys:
    """Return the keys of all rows that are not padding."""
    real = np.arange(BLOCK_ROWS) < blocks.filled[:, None]
    high = blocks.columns.get("key_hi")
    low = blocks.columns["key_lo"][real].astype(np.uint64)
    return Keys(low, None if high is None else high[real].astype(np.uint64))


def _same(left: Keys, right: Keys) -> bool:
    high = left.hi is None or right.hi is None or bool((left.hi == right.hi).all())
    return high and bool((left.lo == right.lo).all())


def _ascend(keys: Keys) -> bool:
    less = keys.lo[:-1] < keys.lo[1:]
    if keys.hi is not None:
        less = (keys.hi[:-1] < keys.hi[1:]) | ((keys.hi[:-1] == keys.hi[1:]) & less)
    return bool(less.all())
