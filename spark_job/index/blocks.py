"""Reads blocks of a segment by number. The directory gives numbers, the geometry offsets; checksums reveal damage."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import Corrupt
from spark_job.columns.arrays import U64, Indices
from spark_job.index.byte_ranges import RangeReader
from spark_job.index.keys import Keys
from spark_job.index.puffin import read_span
from spark_job.index.segment import BLOCK_ROWS, Layout, SegmentInfo, payload_columns
from spark_job.storage.file_cache import FileCache
from spark_job.storage.parallel import is_remote

BLOCKS_PER_READ = 1024  # about 5 MB: small enough that the allocator reuses the memory
_GAP_BLOCKS = 3  # a gap of this many blocks is read through, instead of a seek …
_REMOTE_GAP_BLOCKS = 48  # … or, on object stores, instead of another request
_MAX_DIRECTORY_BYTES = 1 << 30

_Bytes = bytes | memoryview


@dataclass(frozen=True, slots=True)
class BlockDirectory:
    """The first key of each block, the number of entries before it, and its checksum."""

    first: Keys
    entries_before: U64
    checksums: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class RawBlocks:
    """Blocks of a segment as bytes: the full blocks, and the values of the tail if it was requested."""

    segment: SegmentInfo
    full: list[_Bytes]
    tail: dict[str, NDArray[np.generic]] | None


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks as matrices, one row per block. Only the first `filled` elements of a row are valid."""

    columns: dict[str, NDArray[np.generic]]
    filled: Indices


_directories: FileCache[BlockDirectory] = FileCache(256)


def read_directory(io: FileIO, segment: SegmentInfo) -> BlockDirectory:
    """Return a segment's directory. It is cached."""
    return _directories.get(segment.path, lambda: _parse_directory(io, segment))


def _parse_directory(io: FileIO, segment: SegmentInfo) -> BlockDirectory:
    path = segment.path
    raw = read_span(io, path, segment.directory, _MAX_DIRECTORY_BYTES)
    if zlib.crc32(raw) != segment.directory_crc:
        raise Corrupt(f"the directory of the key index does not match its checksum: {path}")
    is_wide = segment.key_definition.codec.is_wide
    has_runs = segment.layout is Layout.RUNS
    arrays_per_block = 1 + is_wide + has_runs
    blocks = segment.geometry.blocks
    if len(raw) != blocks * (8 * arrays_per_block + 4):
        raise Corrupt(f"the directory of the key index has a wrong length: {path}")
    arrays = np.frombuffer(raw, dtype="<u8", count=blocks * arrays_per_block).reshape(-1, blocks)
    entries_before = arrays[-1] if has_runs else np.arange(blocks, dtype=np.uint64) * np.uint64(BLOCK_ROWS)
    first = Keys(arrays[1 if is_wide else 0], arrays[0] if is_wide else None)
    return BlockDirectory(first, entries_before, np.frombuffer(raw, dtype="<u4", offset=arrays.nbytes))


def read_blocks(
    source: RangeReader, segment: SegmentInfo, directory: BlockDirectory, block_numbers: Indices
) -> Blocks:
    """Return the blocks with these ascending numbers. Neighbours are read in one range."""
    return decode_blocks([read_raw_blocks(source, segment, directory, block_numbers)])


def read_raw_blocks(
    source: RangeReader, segment: SegmentInfo, directory: BlockDirectory, block_numbers: Indices
) -> RawBlocks:
    """Return the blocks with these ascending numbers as bytes. Raise `Corrupt` if a checksum does not match."""
    full_numbers = block_numbers[: np.searchsorted(block_numbers, segment.geometry.full_blocks)]
    full_blocks = _read_full_blocks(source, segment, full_numbers)
    _check(segment.path, full_blocks, directory.checksums[full_numbers])
    tail = _read_tail(source, segment, directory) if len(full_numbers) < len(block_numbers) else None
    return RawBlocks(segment, full_blocks, tail)


def decode_blocks(raws: Sequence[RawBlocks]) -> Blocks:
    """Return blocks of segments with one block layout as matrices: the full blocks of all segments, then the tails.

    The bytes of all full blocks lie back to back, so each column is a strided view: no value is copied.

        block 0             block 1             block 2
        │ key_hi key_lo …   │ key_hi key_lo …   │ …
        └ offset of column    └ + stride          └ + 2 × stride
    """
    segment, geometry = raws[0].segment, raws[0].segment.geometry
    count = sum(len(raw.full) for raw in raws)
    data = b"".join(block for raw in raws for block in raw.full)
    tails = [raw for raw in raws if raw.tail is not None]
    columns: dict[str, NDArray[np.generic]] = {}
    for index, (name, dtype) in enumerate(
        payload_columns(segment.encoding, segment.hash_bits, segment.layout)
    ):
        values: NDArray[np.generic] = np.ndarray(
            (count, BLOCK_ROWS),
            dtype,
            buffer=data,
            offset=geometry.columns[index] if count else 0,
            strides=(geometry.stride, dtype.itemsize),
        )
        tail_values = [raw.tail[name][None] for raw in tails if raw.tail is not None]
        columns[name] = np.concatenate([values, *tail_values]) if tail_values else values
    tail_rows = [raw.segment.geometry.rows % BLOCK_ROWS for raw in tails]
    return Blocks(columns, np.array([BLOCK_ROWS] * count + tail_rows, dtype=np.intp))


def _read_full_blocks(source: RangeReader, segment: SegmentInfo, block_numbers: Indices) -> list[_Bytes]:
    """Return the bytes of each block. The tail is not among them."""
    stride, start = segment.geometry.stride, segment.payload.offset + segment.geometry.base
    gap = _REMOTE_GAP_BLOCKS if is_remote(segment.path) else _GAP_BLOCKS
    edges = (
        [0, *(np.flatnonzero(np.diff(block_numbers) > gap + 1) + 1).tolist(), len(block_numbers)]
        if len(block_numbers)
        else []
    )
    all_numbers = block_numbers.tolist()
    groups = [all_numbers[first:end] for first, end in pairwise(edges)]
    ranges = [(start + group[0] * stride, (group[-1] - group[0] + 1) * stride) for group in groups]
    contents: list[_Bytes] = []
    for group, data in zip(groups, source.read(ranges), strict=True):
        if len(group) == 1:
            contents.append(data)
        else:
            view, offsets = memoryview(data), [(block - group[0]) * stride for block in group]
            contents += [view[offset : offset + stride] for offset in offsets]
    return contents


def _read_tail(
    source: RangeReader, segment: SegmentInfo, directory: BlockDirectory
) -> dict[str, NDArray[np.generic]]:
    """Return the last, shorter block, padded to the length of the others."""
    geometry = segment.geometry
    (data,) = source.read([(segment.payload.offset + geometry.tail, geometry.tail_length)])
    _check(segment.path, [data], directory.checksums[-1:])
    rows = geometry.rows - geometry.full_blocks * BLOCK_ROWS
    tail: dict[str, NDArray[np.generic]] = {}
    for index, (name, dtype) in enumerate(
        payload_columns(segment.encoding, segment.hash_bits, segment.layout)
    ):
        values = np.frombuffer(data, dtype=dtype, count=rows, offset=geometry.tail_columns[index])
        tail[name] = np.concatenate([values, np.zeros(BLOCK_ROWS - rows, dtype=dtype)])
    return tail


def _check(path: str, blocks: Sequence[_Bytes], expected: NDArray[np.uint32]) -> None:
    if list(map(zlib.crc32, blocks)) != expected.tolist():
        raise Corrupt(f"a block of the key index does not match its checksum: {path}")
