"""Finds keys in a segment: the directory, then only the touched blocks, then one binary search for all keys."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO, InputStream

from icemirror.errors import Corrupt
from spark_job.immutable import ReadOnce
from spark_job.key_index.codec import Encoding
from spark_job.key_index.keys import U64, Indices, Keys, Mask, concat_keys
from spark_job.key_index.puffin import read_span
from spark_job.key_index.segment import BLOCK_ROWS, Layout, SegmentInfo, payload_columns

_BLOCKS_AT_ONCE = 2048  # bounds memory: about 40 MB of blocks
_GAP_BLOCKS = 3  # read over gaps this small rather than seek
_MAX_DIRECTORY_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Found:
    """The keys that a segment knows: which of those asked for, and the row or tombstone of each."""

    asked: Indices
    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    entry: U64


@dataclass(frozen=True, slots=True)
class _Directory:
    first: Keys
    entries_before: U64
    checksums: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks of a segment, one in each row of the matrices; `filled` rows of each block are real."""

    columns: dict[str, NDArray[np.generic]]
    filled: Indices
    number: Indices


_directories: ReadOnce[_Directory] = ReadOnce(256)


def find_keys(io: FileIO, segment: SegmentInfo, keys: Keys) -> Found:
    """Looks up keys, which must be ascending."""
    directory = _read_directory(io, segment)
    block_of = _last_not_above(directory.first, keys)
    asked = np.flatnonzero(block_of >= 0)
    parts: list[Found] = []
    if len(asked):
        touched, place = np.unique(block_of[asked], return_inverse=True)
        with io.new_input(segment.path).open() as stream:
            for start in range(0, len(touched), _BLOCKS_AT_ONCE):
                chunk = touched[start : start + _BLOCKS_AT_ONCE]
                here = (place >= start) & (place < start + len(chunk))
                blocks = _read_blocks(stream, segment, directory, chunk)
                parts.append(_search(segment, directory, blocks, keys, asked[here], place[here] - start))
    return _join(parts)


def read_entries(io: FileIO, segment: SegmentInfo) -> tuple[Keys, NDArray[np.int32], NDArray[np.int64]]:
    """Every entry of a segment, runs spread out: keys, files and positions in key order."""
    directory = _read_directory(io, segment)
    keys: list[Keys] = []
    files: list[NDArray[np.int32]] = []
    positions: list[NDArray[np.int64]] = []
    with io.new_input(segment.path).open() as stream:
        for start in range(0, segment.geometry.blocks, _BLOCKS_AT_ONCE):
            chunk = np.arange(start, min(start + _BLOCKS_AT_ONCE, segment.geometry.blocks), dtype=np.intp)
            blocks = _read_blocks(stream, segment, directory, chunk)
            real = np.arange(BLOCK_ROWS) < blocks.filled[:, None]
            flat = {name: values[real] for name, values in blocks.columns.items()}
            hi = flat["key_hi"].astype(np.uint64) if "key_hi" in flat else None
            lo, file = flat["key_lo"].astype(np.uint64), flat["file"].astype(np.int32)
            pos = flat["pos"].astype(np.int64)
            if segment.layout is Layout.RUNS:
                length = flat["length"].astype(np.intp)
                step = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
                lo = np.repeat(lo, length) + step.astype(np.uint64)
                hi = None if hi is None else np.repeat(hi, length)
                file = np.repeat(file, length)
                pos = np.where(file < 0, 0, np.repeat(pos, length) + step)
            keys.append(Keys(lo, hi))
            files.append(file)
            positions.append(pos)
    return concat_keys(keys), np.concatenate(files), np.concatenate(positions)


def _read_directory(io: FileIO, segment: SegmentInfo) -> _Directory:
    return _directories.get(segment.path, lambda: _parse_directory(io, segment))


def _parse_directory(io: FileIO, segment: SegmentInfo) -> _Directory:
    path = segment.path
    raw = read_span(io, path, segment.directory, _MAX_DIRECTORY_BYTES)
    if zlib.crc32(raw) != segment.directory_crc:
        raise Corrupt(f"{path}: the directory of the key index does not match its checksum")
    wide = segment.encoding is not Encoding.ORDERED_64
    runs = segment.layout is Layout.RUNS
    blocks = segment.geometry.blocks
    if len(raw) != blocks * (8 * (1 + wide + runs) + 4):
        raise Corrupt(f"{path}: the directory of the key index has a wrong length")
    arrays = np.frombuffer(raw, dtype="<u8", count=blocks * (1 + wide + runs)).reshape(-1, blocks)
    before = arrays[-1] if runs else np.arange(blocks, dtype=np.uint64) * np.uint64(BLOCK_ROWS)
    first = Keys(arrays[1 if wide else 0], arrays[0] if wide else None)
    return _Directory(first, before, np.frombuffer(raw, dtype="<u4", offset=arrays.nbytes))


def _last_not_above(first: Keys, keys: Keys) -> Indices:
    """For each key: the last place in `first` that is not greater, or −1."""
    if first.hi is None or keys.hi is None:
        return np.searchsorted(first.lo, keys.lo, side="right") - 1
    step = 1 << max(len(first) - 1, 0).bit_length()
    found = np.full(len(keys), -1, dtype=np.intp)
    while step:
        at = found + step
        ok = at < len(first)
        inside = np.where(ok, at, 0)
        ok &= _not_above(first.hi[inside], first.lo[inside], keys.hi, keys.lo)
        found = np.where(ok, at, found)
        step >>= 1
    return found


def _not_above(left_hi: U64, left_lo: U64, right_hi: U64, right_lo: U64) -> Mask:
    not_above: Mask = (left_hi < right_hi) | ((left_hi == right_hi) & (left_lo <= right_lo))
    return not_above


def _read_blocks(
    stream: InputStream, segment: SegmentInfo, directory: _Directory, numbers: Indices
) -> _Blocks:
    """Reads blocks by their ascending numbers, neighbours in one range."""
    shape, base = segment.geometry, segment.payload.offset
    full = numbers[numbers < shape.full_blocks]
    raw = np.empty((len(full), shape.stride), dtype=np.uint8)
    done = 0
    for group in np.split(full, np.flatnonzero(np.diff(full) > _GAP_BLOCKS + 1) + 1) if len(full) else ():
        first, count = int(group[0]), int(group[-1] - group[0]) + 1
        data = _read_exactly(
            stream, segment.path, base + shape.base + first * shape.stride, count * shape.stride
        )
        raw[done : done + len(group)] = np.frombuffer(data, dtype=np.uint8).reshape(count, -1)[group - first]
        done += len(group)
    for row, number in enumerate(full):
        _check(segment.path, raw[row], directory.checksums[number])
    columns: dict[str, NDArray[np.generic]] = {}
    filled = np.full(len(numbers), BLOCK_ROWS, dtype=np.intp)
    tail = _read_tail(stream, segment, directory) if len(full) < len(numbers) else None
    if tail is not None:
        filled[-1] = shape.rows - shape.full_blocks * BLOCK_ROWS
    for at, (name, dtype) in enumerate(payload_columns(segment.encoding, segment.hash_bits, segment.layout)):
        width = dtype.itemsize * BLOCK_ROWS
        start = shape.columns[at] if len(full) else 0
        values = np.ascontiguousarray(raw[:, start : start + width]).view(dtype)
        columns[name] = (
            values if tail is None else np.concatenate([values.reshape(-1, BLOCK_ROWS), tail[name][None]])
        )
    return _Blocks(columns, filled, numbers)


def _read_tail(
    stream: InputStream, segment: SegmentInfo, directory: _Directory
) -> dict[str, NDArray[np.generic]]:
    """The last, shorter block, filled up to the length of the others."""
    shape = segment.geometry
    data = _read_exactly(stream, segment.path, segment.payload.offset + shape.tail, shape.tail_length)
    _check(segment.path, np.frombuffer(data, dtype=np.uint8), directory.checksums[-1])
    rows = shape.rows - shape.full_blocks * BLOCK_ROWS
    tail: dict[str, NDArray[np.generic]] = {}
    for at, (name, dtype) in enumerate(payload_columns(segment.encoding, segment.hash_bits, segment.layout)):
        values = np.frombuffer(data, dtype=dtype, count=rows, offset=shape.tail_columns[at])
        tail[name] = np.concatenate([values, np.zeros(BLOCK_ROWS - rows, dtype=dtype)])
    return tail


def _read_exactly(stream: InputStream, path: str, offset: int, length: int) -> bytes:
    stream.seek(offset)
    data = stream.read(length)
    if len(data) != length:
        raise Corrupt(f"{path}: ends before byte {offset + length}")
    return data


def _check(path: str, block: NDArray[np.uint8], expected: np.uint32) -> None:
    if zlib.crc32(block.data) != expected:
        raise Corrupt(f"{path}: a block of the key index does not match its checksum")


def _search(
    segment: SegmentInfo, directory: _Directory, blocks: _Blocks, keys: Keys, asked: Indices, row: Indices
) -> Found:
    """The greatest row of each key's block that is not above the key, and whether it holds the key."""
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
            ok = _not_above(high[row, inside].astype(np.uint64), lo, key_hi, key_lo)
        at = np.where(ok & (candidate < blocks.filled[row]), candidate, at)
        step >>= 1
    into = key_lo - low[row, at].astype(np.uint64)
    runs = segment.layout is Layout.RUNS
    reach = blocks.columns["length"][row, at].astype(np.uint64) if runs else np.uint64(1)
    hit = into < reach
    if high is not None and key_hi is not None:
        hit &= high[row, at].astype(np.uint64) == key_hi
    row, at, into = row[hit], at[hit], into[hit]
    before = directory.entries_before[blocks.number[row]]
    if runs:
        lengths = blocks.columns["length"].astype(np.uint64)
        before = before + (np.cumsum(lengths, axis=1) - lengths)[row, at]
    else:
        before = before + at.astype(np.uint64)
    file = blocks.columns["file"][row, at].astype(np.int32)
    pos = np.where(file < 0, 0, blocks.columns["pos"][row, at].astype(np.int64) + into.astype(np.int64))
    return Found(asked[hit], file, pos, before + into)


def _join(parts: list[Found]) -> Found:
    if len(parts) == 1:
        return parts[0]
    empty = Found(np.empty(0, np.intp), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint64))
    parts = parts or [empty]
    return Found(
        np.concatenate([part.asked for part in parts]),
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.pos for part in parts]),
        np.concatenate([part.entry for part in parts]),
    )
