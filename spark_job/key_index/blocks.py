"""Blocks of a segment: the directory says which, the geometry where, and a checksum whether they are whole."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import Corrupt
from spark_job.immutable import ReadOnce
from spark_job.key_index.keys import U64, Indices, Keys
from spark_job.key_index.puffin import read_span
from spark_job.key_index.ranges import RangeReader, is_remote
from spark_job.key_index.segment import BLOCK_ROWS, Layout, SegmentInfo, payload_columns

BLOCKS_AT_ONCE = 2048  # bounds memory: about 40 MB of blocks
_GAP_BLOCKS = 3  # read over gaps this small rather than seek …
_REMOTE_GAP_BLOCKS = 12  # … or ask once more
_MAX_DIRECTORY_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Directory:
    """The first key of each block, the number of entries before it, and its checksum."""

    first: Keys
    entries_before: U64
    checksums: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of a segment, one in each row of the matrices; `filled` rows of each block are real."""

    columns: dict[str, NDArray[np.generic]]
    filled: Indices
    number: Indices


_directories: ReadOnce[Directory] = ReadOnce(256)


def read_directory(io: FileIO, segment: SegmentInfo) -> Directory:
    """The directory, read once and then remembered."""
    return _directories.get(segment.path, lambda: _parse_directory(io, segment))


def _parse_directory(io: FileIO, segment: SegmentInfo) -> Directory:
    path = segment.path
    raw = read_span(io, path, segment.directory, _MAX_DIRECTORY_BYTES)
    if zlib.crc32(raw) != segment.directory_crc:
        raise Corrupt(f"{path}: the directory of the key index does not match its checksum")
    wide = segment.recipe.codec.is_wide
    runs = segment.layout is Layout.RUNS
    blocks = segment.geometry.blocks
    if len(raw) != blocks * (8 * (1 + wide + runs) + 4):
        raise Corrupt(f"{path}: the directory of the key index has a wrong length")
    arrays = np.frombuffer(raw, dtype="<u8", count=blocks * (1 + wide + runs)).reshape(-1, blocks)
    before = arrays[-1] if runs else np.arange(blocks, dtype=np.uint64) * np.uint64(BLOCK_ROWS)
    first = Keys(arrays[1 if wide else 0], arrays[0] if wide else None)
    return Directory(first, before, np.frombuffer(raw, dtype="<u4", offset=arrays.nbytes))


def read_blocks(source: RangeReader, segment: SegmentInfo, directory: Directory, numbers: Indices) -> Blocks:
    """Reads blocks by their ascending numbers, neighbours in one range."""
    shape, start = segment.geometry, segment.payload.offset + segment.geometry.base
    full = numbers[numbers < shape.full_blocks]
    raw = np.empty((len(full), shape.stride), dtype=np.uint8)
    gap = _REMOTE_GAP_BLOCKS if is_remote(segment.path) else _GAP_BLOCKS
    groups = np.split(full, np.flatnonzero(np.diff(full) > gap + 1) + 1) if len(full) else []
    ranges = [
        (start + int(group[0]) * shape.stride, (int(group[-1] - group[0]) + 1) * shape.stride)
        for group in groups
    ]
    done = 0
    for group, data in zip(groups, source.read(ranges), strict=True):
        blocks = np.frombuffer(data, dtype=np.uint8).reshape(-1, shape.stride)
        raw[done : done + len(group)] = blocks[group - group[0]]
        done += len(group)
    for row, number in enumerate(full):
        _check(segment.path, raw[row], directory.checksums[number])
    columns: dict[str, NDArray[np.generic]] = {}
    filled = np.full(len(numbers), BLOCK_ROWS, dtype=np.intp)
    tail = _read_tail(source, segment, directory) if len(full) < len(numbers) else None
    if tail is not None:
        filled[-1] = shape.rows - shape.full_blocks * BLOCK_ROWS
    for at, (name, dtype) in enumerate(payload_columns(segment.encoding, segment.hash_bits, segment.layout)):
        width = dtype.itemsize * BLOCK_ROWS
        start = shape.columns[at] if len(full) else 0
        values = np.ascontiguousarray(raw[:, start : start + width]).view(dtype)
        columns[name] = (
            values if tail is None else np.concatenate([values.reshape(-1, BLOCK_ROWS), tail[name][None]])
        )
    return Blocks(columns, filled, numbers)


def _read_tail(
    source: RangeReader, segment: SegmentInfo, directory: Directory
) -> dict[str, NDArray[np.generic]]:
    """The last, shorter block, filled up to the length of the others."""
    shape = segment.geometry
    (data,) = source.read([(segment.payload.offset + shape.tail, shape.tail_length)])
    _check(segment.path, np.frombuffer(data, dtype=np.uint8), directory.checksums[-1])
    rows = shape.rows - shape.full_blocks * BLOCK_ROWS
    tail: dict[str, NDArray[np.generic]] = {}
    for at, (name, dtype) in enumerate(payload_columns(segment.encoding, segment.hash_bits, segment.layout)):
        values = np.frombuffer(data, dtype=dtype, count=rows, offset=shape.tail_columns[at])
        tail[name] = np.concatenate([values, np.zeros(BLOCK_ROWS - rows, dtype=dtype)])
    return tail


def _check(path: str, block: NDArray[np.uint8], expected: np.uint32) -> None:
    if zlib.crc32(block.data) != expected:
        raise Corrupt(f"{path}: a block of the key index does not match its checksum")
