"""Creates entries and segments, and reads and damages them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.index.key_codec import Encoding, KeyCodec
from spark_job.index.keys import Keys
from spark_job.index.segment import Entries, KeyDefinition, SegmentInfo
from spark_job.index.write_segment import write_segment

ORDERED_64 = KeyCodec(Encoding.ORDERED_64)
ORDERED_128 = KeyCodec(Encoding.ORDERED_128)
HASHED = KeyCodec(Encoding.HASHED)
CODECS = (ORDERED_64, ORDERED_128, HASHED, KeyCodec(Encoding.HASHED, 4), KeyCodec(Encoding.HASHED, 128))
SIZES = (1, 2, 255, 256, 257, 511, 512, 513)


def make_keys(codec: KeyCodec, numbers: Sequence[int]) -> Keys:
    """Return keys in the layout of a codec, from integers."""
    lo = np.array([number & (2**64 - 1) for number in numbers], dtype=np.uint64)
    if codec.encoding is Encoding.ORDERED_64:
        return Keys(lo)
    return Keys(lo, np.array([number >> 64 for number in numbers], dtype=np.uint64))


def key_bits(codec: KeyCodec) -> tuple[int, int]:
    """Return how many bits of the high and of the low half a codec uses."""
    match codec.encoding:
        case Encoding.ORDERED_64:
            return 0, 64
        case Encoding.ORDERED_128:
            return 64, 64
        case Encoding.HASHED:
            return min(codec.hash_bits, 64), max(codec.hash_bits - 64, 0)


def random_numbers(codec: KeyCodec, count: int, random: np.random.Generator) -> list[int]:
    """Return distinct ascending keys that a codec may produce: random ones, neighbours, and the extremes."""
    high, low = key_bits(codec)

    def layout(number: int) -> int:
        return ((number >> low) << 64) | (number & ((1 << low) - 1))

    space = 1 << (high + low)
    if space <= count:
        return [layout(number) for number in range(space)]
    found: set[int] = {0, space - 1} if count > 1 else set()
    while len(found) < count:
        start = int.from_bytes(random.bytes(16), "big") % space
        length = int(random.integers(1, 40)) if random.random() < 0.5 else 1
        found.update(number % space for number in range(start, start + min(length, count - len(found))))
    return [layout(number) for number in sorted(found)]


def make_entries(codec: KeyCodec, numbers: Sequence[int], random: np.random.Generator) -> Entries:
    """Return entries for ascending keys: rows of three files, some consecutive, and tombstones."""
    count = len(numbers)
    file = np.repeat(random.integers(-1, 3, count), random.integers(1, 30, count))[:count].astype(np.int32)
    pos = np.cumsum(random.choice([1, 1, 1, 1, 5], count)).astype(np.int64)
    pos[file < 0] = 0
    orders = random.integers(0, 2**64 - 1, (count, 3), dtype=np.uint64, endpoint=True)
    return Entries(make_keys(codec, numbers), file, pos, orders)


def row_entries(
    numbers: Sequence[int], file: Sequence[int], pos: Sequence[int], codec: KeyCodec = ORDERED_64
) -> Entries:
    """Return entries with these keys and rows, and the same order."""
    return Entries(
        make_keys(codec, numbers),
        np.array(file, np.int32),
        np.array(pos, np.int64),
        np.ones((len(numbers), 2), np.uint64),
    )


def store(io: FileIO, folder: Path, entries: Entries, codec: KeyCodec) -> SegmentInfo:
    """Write a segment to a new path, because the content of a path is cached forever."""
    path = str(folder / f"{uuid4()}.segment.puffin")
    return write_segment(io, path, entries, KeyDefinition(codec), ["a", "b", "c"], (0, 1, 2))


def replant(segment: SegmentInfo, content: bytes) -> SegmentInfo:
    """Copy the segment to a new file with this content."""
    path = Path(segment.path).with_name(f"{uuid4()}.segment.puffin")
    path.write_bytes(content)
    return segment.model_copy(update={"path": str(path)})


def flip(content: bytes, offset: int, bit: int = 0) -> bytes:
    """Return the content with one bit flipped."""
    changed = bytearray(content)
    changed[offset] ^= 1 << bit
    return bytes(changed)


def plain(keys: Keys) -> list[int]:
    """Return the keys as integers."""
    low: list[int] = keys.lo.tolist()
    if keys.hi is None:
        return low
    return [(high << 64) | lo for high, lo in zip(keys.hi.tolist(), low, strict=True)]


def model(entries: Entries) -> dict[int, tuple[int, int]]:
    """Return key → (file, position), the expected results of lookups."""
    files: NDArray[np.int32] = entries.file
    return dict(
        zip(
            plain(entries.keys),
            zip(files.tolist(), entries.pos.tolist(), strict=True),
            strict=True,
        )
    )
