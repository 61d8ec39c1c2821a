"""Every checksum of a segment: directory, all blocks, all pages of the orders, and the footers for tools."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from icemirror.errors import Corrupt
from spark_job.key_index.blocks import BLOCKS_AT_ONCE, Blocks, read_blocks, read_directory
from spark_job.key_index.damage import DamagedSegment, reading_segment
from spark_job.key_index.keys import Keys
from spark_job.key_index.orders import read_orders
from spark_job.key_index.puffin import read_blobs, read_span
from spark_job.key_index.ranges import open_ranges
from spark_job.key_index.segment import BLOCK_ROWS, SegmentInfo

_ORDERS_AT_ONCE = 1 << 20
_MOST_PAYLOAD = 4 << 30


def check_segment(io: FileIO, segment: SegmentInfo) -> DamagedSegment | None:
    """What is wrong with a segment, if anything is."""
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
        for start in range(0, len(numbers), BLOCKS_AT_ONCE):
            chunk = numbers[start : start + BLOCKS_AT_ONCE]
            blocks = read_blocks(source, segment, directory, chunk)
            lengths = blocks.columns.get("length")
            entries += int(blocks.filled.sum()) if lengths is None else int(lengths.astype(np.int64).sum())
            keys = _keys(blocks)
            firsts = np.cumsum(blocks.filled) - blocks.filled
            if not _same(keys.take(firsts), directory.first.take(chunk)):
                raise Corrupt(f"{path}: a block does not begin with the key that the directory says")
            if keys.at(0) <= before or not _ascend(keys):
                raise Corrupt(f"{path}: its keys do not ascend, so that lookups miss some")
            before = keys.at(-1)
    if entries != segment.entries:
        raise Corrupt(f"{path}: has {entries} entries, the root says {segment.entries}")
    for start in range(0, segment.entries, _ORDERS_AT_ONCE):
        wanted = np.arange(start, min(start + _ORDERS_AT_ONCE, segment.entries), dtype=np.uint64)
        read_orders(io, path, segment.orders, wanted, len(segment.greatest))
    spans = {blob.span for blob in read_blobs(io, path)}
    if spans != {segment.payload, segment.directory, segment.orders}:
        raise Corrupt(f"{path}: its footer names other parts than the root")
    try:
        footer = pq.read_metadata(pa.BufferReader(read_span(io, path, segment.payload, _MOST_PAYLOAD)))
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"{path}: other readers cannot read its entries ({type(error).__name__})") from error
    if footer.num_rows != segment.geometry.rows:
        raise Corrupt(f"{path}: has {footer.num_rows} rows, the root says {segment.geometry.rows}")


def _keys(blocks: Blocks) -> Keys:
    """The keys of all real rows."""
    real = np.arange(BLOCK_ROWS) < blocks.filled[:, None]
    high = blocks.columns.get("key_hi")
    low = blocks.columns["key_lo"][real].astype(np.uint64)
    return Keys(low, None if high is None else high[real].astype(np.uint64))


def _same(one: Keys, other: Keys) -> bool:
    high = one.hi is None or other.hi is None or bool((one.hi == other.hi).all())
    return high and bool((one.lo == other.lo).all())


def _ascend(keys: Keys) -> bool:
    less = keys.lo[:-1] < keys.lo[1:]
    if keys.hi is not None:
        less = (keys.hi[:-1] < keys.hi[1:]) | ((keys.hi[:-1] == keys.hi[1:]) & less)
    return bool(less.all())
