"""Damaged segments: a lookup fails or is correct, never wrong, and never uses much memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from icemirror.errors import Corrupt
from spark_job.index import segment_cache
from spark_job.index.damaged_segment import DamagedSegment, reading_segment
from spark_job.index.key_codec import KeyCodec
from spark_job.index.lookup import find_keys
from spark_job.index.orders import read_orders
from spark_job.index.puffin import Blob, read_blobs, read_span, write_puffin
from spark_job.index.scan import read_segment_entries
from spark_job.index.segment import BLOCK_ROWS, Entries, Layout, SegmentInfo
from spark_job.storage.translate_errors import translate_errors
from tests.unit.spark_job.index.remote_io import RemoteFileIO
from tests.unit.spark_job.index.samples import (
    HASHED,
    ORDERED_64,
    ORDERED_128,
    flip,
    make_entries,
    make_keys,
    plain,
    random_numbers,
    replant,
    row_entries,
    store,
)

CASES = {"ordered-64": ORDERED_64, "ordered-128": ORDERED_128, "hashed": HASHED}


def make_segment(
    io: PyArrowFileIO, folder: Path, codec: KeyCodec, size: int = 3 * BLOCK_ROWS + 100
) -> tuple[SegmentInfo, Entries]:
    """Write a segment of three full blocks and a short one."""
    random = np.random.default_rng(size)
    numbers = random_numbers(codec, size, random)
    entries = row_entries(numbers, [0] * size, random.permutation(size).tolist(), codec)
    segment = store(io, folder, entries, codec)
    assert (segment.layout, segment.geometry.blocks) == (Layout.ENTRIES, 4)
    return segment, entries


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("block", range(4))
@pytest.mark.parametrize("small", [True, False])
def test_damaged_block_is_corrupt_and_other_blocks_are_correct_or_refused(
    tmp_path: Path, io: PyArrowFileIO, name: str, block: int, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small segment is read whole, so every lookup detects any damage."""
    if not small:
        monkeypatch.setattr(segment_cache, "_ALWAYS_CACHED_BYTES", 0)
        monkeypatch.setattr(segment_cache, "_MAX_CACHED_BYTES", 0)
    codec = CASES[name]
    segment, entries = make_segment(io, tmp_path, codec)
    shape = segment.geometry
    start = shape.base + block * shape.stride if block < 3 else shape.tail
    length = shape.stride if block < 3 else shape.tail_length
    numbers = plain(entries.keys)
    content = Path(segment.path).read_bytes()
    for offset in (0, length // 3, length // 2, length - 1):  # a page header is covered as well
        damaged = replant(segment, flip(content, segment.payload.offset + start + offset, offset % 8))
        for requested in range(4):
            key = make_keys(codec, [numbers[requested * BLOCK_ROWS + 50]])
            if small or requested == block:
                with pytest.raises(Corrupt, match="checksum"):
                    find_keys(io, [damaged], key)
            else:
                (position,) = find_keys(io, [damaged], key).pos.tolist()
                assert position == entries.pos[requested * BLOCK_ROWS + 50]
        with pytest.raises(Corrupt, match="checksum"):
            read_segment_entries(io, damaged)


@pytest.mark.parametrize("name", CASES)
def test_flipped_bit_in_the_directory_is_corrupt(tmp_path: Path, io: PyArrowFileIO, name: str) -> None:
    codec = CASES[name]
    segment, entries = make_segment(io, tmp_path, codec)
    content, key = Path(segment.path).read_bytes(), entries.keys.take(slice(0, 1))
    for offset in range(segment.directory.length):
        damaged = replant(segment, flip(content, segment.directory.offset + offset, offset % 8))
        with pytest.raises(Corrupt):
            find_keys(io, [damaged], key)


@pytest.mark.parametrize("name", CASES)
def test_truncated_segment_is_corrupt(tmp_path: Path, io: PyArrowFileIO, name: str) -> None:
    segment, entries = make_segment(io, tmp_path, CASES[name])
    content = Path(segment.path).read_bytes()
    end = segment.directory.offset + segment.directory.length
    for cut in (0, 3, 4, 5000, segment.directory.offset, end - 1):
        with pytest.raises(Corrupt):
            find_keys(io, [replant(segment, content[:cut])], entries.keys)


@pytest.mark.parametrize("name", CASES)
def test_swapped_blocks_are_corrupt(tmp_path: Path, io: PyArrowFileIO, name: str) -> None:
    """Each block has a valid checksum, but not the one of its position."""
    segment, entries = make_segment(io, tmp_path, CASES[name])
    content, shape = bytearray(Path(segment.path).read_bytes()), segment.geometry
    first = segment.payload.offset + shape.base
    second = first + shape.stride
    left, expected = slice(first, first + shape.stride), slice(second, second + shape.stride)
    content[left], content[expected] = content[expected], content[left]
    with pytest.raises(Corrupt, match="checksum"):
        find_keys(io, [replant(segment, bytes(content))], entries.keys)


def test_file_of_another_segment_is_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    segment, entries = make_segment(io, tmp_path, ORDERED_64)
    random = np.random.default_rng(99)
    other = make_entries(ORDERED_64, random_numbers(ORDERED_64, len(entries), random), random)
    other_segment = store(io, tmp_path, other, ORDERED_64)
    with pytest.raises(Corrupt):
        find_keys(io, [replant(segment, Path(other_segment.path).read_bytes())], entries.keys)


def test_directory_of_another_length_is_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    segment, entries = make_segment(io, tmp_path, ORDERED_64)
    short = segment.geometry.model_copy(update={"rows": 2 * BLOCK_ROWS})
    wrong = segment.model_copy(update={"geometry": short})
    with pytest.raises(Corrupt, match="length"):
        find_keys(io, [replant(wrong, Path(segment.path).read_bytes())], entries.keys)


def test_directory_longer_than_a_gigabyte_is_not_read(tmp_path: Path, io: PyArrowFileIO) -> None:
    segment, entries = make_segment(io, tmp_path, ORDERED_64)
    huge = segment.directory.model_copy(update={"length": (1 << 30) + 1})
    wrong = segment.model_copy(update={"directory": huge})
    with pytest.raises(Corrupt, match="at most"):
        find_keys(io, [replant(wrong, Path(segment.path).read_bytes())], entries.keys)


@pytest.mark.parametrize("name", CASES)
def test_random_damage_never_returns_a_wrong_row(tmp_path: Path, io: PyArrowFileIO, name: str) -> None:
    codec = CASES[name]
    segment, entries = make_segment(io, tmp_path, codec)
    expected = find_keys(io, [segment], entries.keys)
    content = Path(segment.path).read_bytes()
    random = np.random.default_rng(7)
    refused = 0
    for _ in range(60):
        damaged = bytearray(content)
        for offset in random.integers(0, len(content), int(random.integers(1, 4))).tolist():
            damaged[offset] = int(random.integers(256))
        try:
            found = find_keys(io, [replant(segment, bytes(damaged))], entries.keys)
        except Corrupt:
            refused += 1
            continue
        assert (found.key_index == expected.key_index).all()
        assert (found.pos == expected.pos).all()
        assert (found.file == expected.file).all()
        assert (found.entry == expected.entry).all()
    assert refused > 20


def test_missing_segment_is_damaged(tmp_path: Path, io: PyArrowFileIO) -> None:
    segment, entries = make_segment(io, tmp_path, ORDERED_64)
    missing = replant(segment, b"")
    Path(missing.path).unlink()
    with pytest.raises(DamagedSegment, match="is missing"):
        find_keys(io, [missing], entries.keys)


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_truncated_segment_on_an_object_store_is_damaged_and_not_unreachable(
    tmp_path: Path, name: str, remote: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow raises a generic error for a read beyond the end of an object."""
    monkeypatch.setattr("spark_job.index.byte_ranges.is_remote", lambda _path: remote)
    io = RemoteFileIO()
    segment, entries = make_segment(io, tmp_path, CASES[name])
    content = Path(segment.path).read_bytes()
    for cut in range(0, segment.orders.offset + segment.orders.length, 997):
        damaged = replant(segment, content[:cut])
        with pytest.raises(DamagedSegment), translate_errors("shop.orders"), reading_segment(damaged.path):
            read_segment_entries(io, damaged)
        with pytest.raises(DamagedSegment), translate_errors("shop.orders"), reading_segment(damaged.path):
            read_orders(io, damaged.path, damaged.orders, np.arange(len(entries), dtype=np.uint64), 2)


def test_truncated_root_and_vector_on_an_object_store_are_corrupt(tmp_path: Path) -> None:
    io = RemoteFileIO()
    path = str(tmp_path / "one.puffin")
    _, (span,) = write_puffin(io, path, [Blob("kind", b"payload" * 10)])
    content = Path(path).read_bytes()
    for cut in range(span.offset + span.length):
        Path(path).write_bytes(content[:cut])
        with pytest.raises(Corrupt):
            read_blobs(io, path)
        with pytest.raises(Corrupt):
            read_span(io, path, span, 100)
