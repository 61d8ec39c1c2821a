from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from spark_job.index import scan, segment_cache
from spark_job.index.key_codec import KeyCodec
from spark_job.index.lookup import find_keys
from spark_job.index.scan import read_segment_entries
from spark_job.index.segment import BLOCK_ROWS, Layout
from tests.unit.spark_job.index.counting_io import CountingFileIO
from tests.unit.spark_job.index.lookup_modes import READ_MODES, TOP, check_same
from tests.unit.spark_job.index.samples import (
    CODECS,
    HASHED,
    ORDERED_64,
    ORDERED_128,
    make_entries,
    make_keys,
    model,
    plain,
    random_numbers,
    row_entries,
    store,
)


@pytest.fixture(params=list(READ_MODES.values()), ids=list(READ_MODES))
def _every_read_mode(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the test with segments that are cached as a whole and with others."""
    with pytest.MonkeyPatch.context() as patches:
        for limit in request.param:
            patches.setattr(segment_cache, limit, 0)
        yield


@pytest.mark.usefixtures("_every_read_mode")
def test_absent_keys_are_not_found(tmp_path: Path, io: PyArrowFileIO) -> None:
    entries = row_entries([10, 11, 20], [0, 0, 0], [0, 1, 2])
    segment = store(io, tmp_path, entries, ORDERED_64)
    assert not len(find_keys(io, [segment], make_keys(ORDERED_64, [0, 9, 12, 19, 21, TOP])).key_index)


@pytest.mark.usefixtures("_every_read_mode")
def test_key_with_another_high_half_is_not_found(tmp_path: Path, io: PyArrowFileIO) -> None:
    entries = row_entries([2**64 + 5, 3 * 2**64 + 5], [0, 0], [0, 1], ORDERED_128)
    segment = store(io, tmp_path, entries, ORDERED_128)
    found = find_keys(io, [segment], make_keys(ORDERED_128, [5, 2**64 + 5, 2 * 2**64 + 5, 4 * 2**64 + 5]))
    assert found.key_index.tolist() == [1]


@pytest.mark.usefixtures("_every_read_mode")
def test_run_does_not_extend_into_the_next_high_half(tmp_path: Path, io: PyArrowFileIO) -> None:
    entries = row_entries(range(2**64 - 6, 2**64), [0] * 6, range(6), ORDERED_128)
    segment = store(io, tmp_path, entries, ORDERED_128)
    assert segment.layout is Layout.RUNS
    requested = [2**64 - 7, 2**64 - 1, 2**64, 2**64 + 1, 2**65 - 6]
    assert find_keys(io, [segment], make_keys(ORDERED_128, requested)).key_index.tolist() == [1]


@pytest.mark.usefixtures("_every_read_mode")
def test_last_row_of_a_file_of_four_billion_rows_is_found(tmp_path: Path, io: PyArrowFileIO) -> None:
    entries = row_entries(range(8), [0] * 8, range(2**32 - 8, 2**32))
    segment = store(io, tmp_path, entries, ORDERED_64)
    assert find_keys(io, [segment], make_keys(ORDERED_64, [7])).pos.tolist() == [2**32 - 1]


@pytest.mark.usefixtures("_every_read_mode")
def test_key_can_be_requested_twice(tmp_path: Path, io: PyArrowFileIO) -> None:
    segment = store(io, tmp_path, row_entries([4, 9], [1, 2], [5, 6]), ORDERED_64)
    found = find_keys(io, [segment], make_keys(ORDERED_64, [4, 4, 5, 9, 9]))
    assert (found.key_index.tolist(), found.pos.tolist()) == ([0, 1, 3, 4], [5, 5, 6, 6])


@pytest.mark.usefixtures("_every_read_mode")
def test_zero_keys_give_zero_results(tmp_path: Path, io: PyArrowFileIO) -> None:
    segment = store(io, tmp_path, row_entries([4], [1], [5]), ORDERED_64)
    assert not len(find_keys(io, [segment], make_keys(ORDERED_64, [])).key_index)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [1, 256, 3000])
def test_entries_are_equal_after_a_round_trip(
    tmp_path: Path, io: PyArrowFileIO, monkeypatch: pytest.MonkeyPatch, codec: KeyCodec, size: int
) -> None:
    monkeypatch.setattr(scan, "BLOCKS_PER_READ", 2)
    random = np.random.default_rng(size)
    entries = make_entries(codec, random_numbers(codec, size, random), random)
    check_same(read_segment_entries(io, store(io, tmp_path, entries, codec)), entries)


def test_run_longer_than_the_range_is_not_expanded(tmp_path: Path, io: PyArrowFileIO) -> None:
    numbers = range(1000, 301_000)
    segment = store(io, tmp_path, row_entries(numbers, [0] * 300_000, range(300_000)), ORDERED_64)
    assert segment.geometry.rows == 1
    found = read_segment_entries(io, segment, 2000, 2004)
    assert (plain(found.keys), found.pos.tolist()) == (
        [2000, 2001, 2002, 2003, 2004],
        [1000, 1001, 1002, 1003, 1004],
    )


def test_lookup_reads_the_directory_once_and_then_only_touched_blocks(
    tmp_path: Path, io: PyArrowFileIO
) -> None:
    numbers = list(range(0, 200_000 * 3, 3))
    segment = store(io, tmp_path, row_entries(numbers, [0] * 200_000, [7] * 200_000), ORDERED_64)
    counting = CountingFileIO()
    find_keys(counting, [segment], make_keys(ORDERED_64, [numbers[100_000]]))
    assert counting.read_bytes == segment.directory.length + segment.geometry.stride
    counting.read_bytes = 0
    find_keys(counting, [segment], make_keys(ORDERED_64, [numbers[5], numbers[199_000]]))
    assert counting.read_bytes == 2 * segment.geometry.stride
    assert segment.geometry.stride < 20_000


def test_keys_outside_the_range_of_a_segment_read_nothing(tmp_path: Path, io: PyArrowFileIO) -> None:
    segment = store(io, tmp_path, row_entries([100, 200], [0, 0], [0, 1]), ORDERED_64)
    counting = CountingFileIO()
    assert not len(find_keys(counting, [segment], make_keys(ORDERED_64, [1, 99])).key_index)
    assert counting.read_bytes == 0


def test_segment_is_cached_by_its_path(tmp_path: Path, io: PyArrowFileIO) -> None:
    """Segments are immutable, so a process reads each directory and each small segment once."""
    first = store(io, tmp_path, row_entries([1], [0], [0]), ORDERED_64)
    find_keys(io, [first], make_keys(ORDERED_64, [1]))
    counting = CountingFileIO()
    assert find_keys(counting, [first], make_keys(ORDERED_64, [1])).key_index.tolist() == [0]
    assert counting.read_bytes == 0
    moved = first.model_copy(update={"path": str(tmp_path / f"{uuid4()}.puffin")})
    Path(moved.path).write_bytes(Path(first.path).read_bytes())
    counting.read_bytes = 0
    find_keys(counting, [moved], make_keys(ORDERED_64, [1]))
    assert counting.read_bytes == first.geometry.tail_length + first.directory.length


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("rows", [5, BLOCK_ROWS, 3 * BLOCK_ROWS, 3 * BLOCK_ROWS + 7])
def test_small_segment_is_read_from_memory(
    tmp_path: Path, io: PyArrowFileIO, codec: KeyCodec, rows: int
) -> None:
    random = np.random.default_rng(rows)
    numbers = random_numbers(codec, rows, random)
    entries = make_entries(codec, numbers, random)
    segment = store(io, tmp_path, entries, codec)
    find_keys(io, [segment], make_keys(codec, numbers[:1]))
    Path(segment.path).rename(tmp_path / "elsewhere")
    known = model(entries)
    for requested in (
        numbers,
        numbers[-1:],
        numbers[:1],
        numbers[BLOCK_ROWS : BLOCK_ROWS + 1],
        numbers[::100],
    ):
        found = find_keys(io, [segment], make_keys(codec, requested))
        locations = list(zip(found.file.tolist(), found.pos.tolist(), strict=True))
        assert locations == [known[number] for number in requested]


@pytest.mark.parametrize("codec", [ORDERED_64, ORDERED_128, HASHED])
def test_segment_is_cached_if_many_blocks_are_needed(
    tmp_path: Path, io: PyArrowFileIO, codec: KeyCodec
) -> None:
    random = np.random.default_rng(3)
    numbers = random_numbers(codec, 100 * BLOCK_ROWS, random)
    backwards = range(len(numbers))[::-1]  # no runs
    segment = store(io, tmp_path, row_entries(numbers, [0] * len(numbers), backwards, codec), codec)
    assert segment.payload.length > segment_cache._ALWAYS_CACHED_BYTES
    counting = CountingFileIO()
    find_keys(counting, [segment], make_keys(codec, numbers[: 12 * BLOCK_ROWS : BLOCK_ROWS]))
    assert counting.read_bytes < segment.payload.length / 5
    find_keys(io, [segment], make_keys(codec, numbers[:: 7 * BLOCK_ROWS]))
    Path(segment.path).rename(tmp_path / "elsewhere")
    found = find_keys(io, [segment], make_keys(codec, numbers[5::1000]))
    assert found.pos.tolist() == list(backwards[5::1000])
