from __future__ import annotations

import struct
import time
import zlib

import numpy as np
import pytest
from numpy.typing import NDArray
from pyiceberg.table.deletion_vector import DeletionVector
from pyroaring import BitMap64

from icemirror.errors import Corrupt
from spark_job.write.deletion_vectors import decode_vector, encode_vector, max_vector_bytes

ROWS = 200_000


def random_positions(count: int, rows: int = ROWS) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(count).permutation(rows)[:count]).astype(np.int64)


def frame(bitmap: bytes) -> bytes:
    content = b"\xd1\xd3\x39\x64" + bitmap
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))


@pytest.mark.parametrize(
    "positions",
    [
        np.empty(0, np.int64),
        np.array([0]),
        np.array([ROWS - 1]),
        np.arange(70_000),
        random_positions(10),
        random_positions(100_000),
        np.array([65_535, 65_536, 131_071]),
    ],
    ids=len,
)
def test_positions_are_equal_after_a_round_trip(positions: NDArray[np.int64]) -> None:
    data = encode_vector(positions)
    assert decode_vector(data, ROWS, len(positions), "v").tolist() == positions.tolist()
    assert len(data) <= max_vector_bytes(ROWS)


def test_positions_beyond_32_bits_are_equal_after_a_round_trip() -> None:
    positions = np.array([1, 2**32 - 1, 2**32, 2**40])
    assert decode_vector(encode_vector(positions), 2**41, 4, "v").tolist() == positions.tolist()


def test_bytes_follow_the_specification() -> None:
    data = encode_vector(np.array([3, 5], np.int64))
    vector = data[8:-4]
    assert data[:8] == struct.pack(">I", len(data) - 8) + bytes.fromhex("d1d33964")
    assert data[-4:] == struct.pack(">I", zlib.crc32(data[4:-4]))
    assert vector[:12] == struct.pack("<qI", 1, 0)  # one bitmap of 32 bits, its key
    assert DeletionVector("f", DeletionVector._deserialize_bitmap(vector)).to_vector().to_pylist() == [3, 5]


def test_long_runs_take_few_bytes() -> None:
    assert len(encode_vector(np.arange(100_000))) < 100


def test_vector_without_run_optimization_is_read() -> None:
    data = frame(BitMap64(range(1000)).serialize())
    assert len(decode_vector(data, ROWS, 1000, "v")) == 1000


def test_every_damaged_byte_is_detected() -> None:
    data = encode_vector(random_positions(20))
    for offset in range(len(data)):
        damaged = data[:offset] + bytes([data[offset] ^ 0x41]) + data[offset + 1 :]
        with pytest.raises(Corrupt, match=r": v$"):
            decode_vector(damaged, ROWS, 20, "v")


@pytest.mark.parametrize("length", [0, 3, 11, 20, 50])
def test_truncated_vector_is_detected(length: int) -> None:
    with pytest.raises(Corrupt):
        decode_vector(encode_vector(random_positions(20))[:length], ROWS, 20, "v")


@pytest.mark.parametrize("bitmap", [b"", b"\x01", b"\xff" * 40, struct.pack("<qI", 1, 0), b"\x05" + bytes(7)])
def test_invalid_bitmap_with_a_valid_checksum_is_detected(bitmap: bytes) -> None:
    with pytest.raises(Corrupt, match="cannot be read"):
        decode_vector(frame(bitmap), ROWS, 1, "v")


def test_number_of_positions_must_equal_the_count_of_the_manifest() -> None:
    with pytest.raises(Corrupt, match="states that 19 rows are deleted, the vector 20"):
        decode_vector(encode_vector(random_positions(20)), ROWS, 19, "v")


def test_position_beyond_the_data_file_is_detected() -> None:
    with pytest.raises(Corrupt, match="row 9 is deleted in a data file of 9 rows"):
        decode_vector(encode_vector(np.array([9])), 9, 1, "v")


def test_small_vector_for_billions_of_rows_is_refused_quickly() -> None:
    bomb = BitMap64()
    bomb.add_range(0, 1 << 34)
    bomb.run_optimize()
    began = time.perf_counter()
    with pytest.raises(Corrupt):
        decode_vector(frame(bomb.serialize()), ROWS, 10, "v")
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("rows", [1, 65_536, 65_537, 1_000_000])
def test_vector_length_is_bounded(rows: int) -> None:
    every_other = np.arange(0, rows, 2)
    assert len(encode_vector(every_other)) <= max_vector_bytes(rows)
    assert max_vector_bytes(rows) < 20_000 + rows // 2
