"""Lookups in segments of every size and layout equal a dictionary's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO

from spark_job.index import lookup, segment_cache
from spark_job.index.key_codec import KeyCodec
from spark_job.index.lookup import find_keys
from spark_job.index.orders import read_orders
from spark_job.index.scan import read_segment_entries
from spark_job.index.segment import BLOCK_ROWS, Entries, Layout, SegmentInfo
from tests.unit.spark_job.index.lookup_modes import READ_MODES, TOP, check_same
from tests.unit.spark_job.index.samples import (
    CODECS,
    HASHED,
    ORDERED_64,
    ORDERED_128,
    SIZES,
    key_bits,
    make_entries,
    make_keys,
    model,
    plain,
    random_numbers,
    row_entries,
    store,
)


@pytest.fixture(params=list(READ_MODES.values()), ids=list(READ_MODES))
def _cached_or_by_block(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs the test with segments cached as a whole, and with segments read by block."""
    with pytest.MonkeyPatch.context() as patches:
        for limit in request.param:
            patches.setattr(segment_cache, limit, 0)
        yield


def check_results(
    io: PyArrowFileIO, segment: SegmentInfo, entries: Entries, codec: KeyCodec, requested: Sequence[int]
) -> None:
    """Check that results equal those of a dictionary, and that every order belongs to its key."""
    keys = make_keys(codec, requested)
    found = find_keys(io, [segment], keys)
    found_at = found.key_index.tolist()
    known = model(entries)
    assert found_at == [at for at, number in enumerate(requested) if number in known]
    results = list(zip(found.file.tolist(), found.pos.tolist(), strict=True))
    assert results == [known[requested[at]] for at in found_at]
    if found_at:
        entry_of = {number: at for at, number in enumerate(plain(entries.keys))}
        assert found.entry.tolist() == [entry_of[requested[at]] for at in found_at]
        parts = entries.orders.shape[1]
        orders = read_orders(io, segment.path, segment.orders, found.entry, parts)
        assert (orders == entries.orders[[entry_of[requested[at]] for at in found_at]]).all()


def keys_around(numbers: Sequence[int], codec: KeyCodec, random: np.random.Generator) -> list[int]:
    """Return every key at a block boundary, many others, their neighbours, and the ends of the range."""
    high, low = key_bits(codec)
    mask = ((1 << high) - 1) << 64 | ((1 << low) - 1)
    borders = [numbers[at] for at in range(len(numbers)) if (at + 1) % BLOCK_ROWS <= 1]
    some = [numbers[at] for at in random.integers(0, len(numbers), 200)]
    near = {number + step for number in (*borders, *some, numbers[0], numbers[-1]) for step in (-1, 0, 1)}
    ends = {0, mask, *(1 << bit for bit in (0, 31, 63, 64, 127))}
    return sorted(number for number in near | ends if number >= 0 and number & mask == number)


@pytest.mark.usefixtures("_cached_or_by_block")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [*SIZES, 5000])
def test_lookups_equal_a_dictionary(tmp_path: Path, io: PyArrowFileIO, codec: KeyCodec, size: int) -> None:
    random = np.random.default_rng([size, codec.hash_bits])
    numbers = random_numbers(codec, size, random)
    entries = make_entries(codec, numbers, random)
    segment = store(io, tmp_path, entries, codec)
    check_results(io, segment, entries, codec, keys_around(numbers, codec, random))


@pytest.mark.usefixtures("_cached_or_by_block")
@pytest.mark.parametrize("codec", [ORDERED_64, ORDERED_128])
@pytest.mark.parametrize("rows", SIZES)
def test_lookups_in_a_given_number_of_runs_equal_a_dictionary(
    tmp_path: Path, io: PyArrowFileIO, codec: KeyCodec, rows: int
) -> None:
    random = np.random.default_rng(rows)
    lengths = random.integers(6, 12, rows)
    ends = np.cumsum(lengths + random.integers(1, 3, rows)).tolist()
    base = TOP + 1 - ends[-1] if codec is ORDERED_64 else 2**70
    numbers = [
        base + end - step
        for end, length in zip(ends, lengths.tolist(), strict=True)
        for step in range(length, 0, -1)
    ]
    file = np.repeat(np.arange(rows) % 4 - 1, lengths)
    position = np.where(file < 0, 0, np.arange(len(numbers)))
    entries = row_entries(numbers, file.tolist(), position.tolist(), codec)
    segment = store(io, tmp_path, entries, codec)
    assert (segment.layout, segment.geometry.rows) == (Layout.RUNS, rows)
    check_results(io, segment, entries, codec, keys_around(numbers, codec, random))


_SMALL = st.lists(
    st.one_of(st.integers(0, 60), st.integers(TOP - 30, TOP), st.integers(0, TOP)),
    min_size=1,
    max_size=60,
    unique=True,
)


@pytest.mark.usefixtures("_cached_or_by_block")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    numbers=_SMALL,
    requested=_SMALL,
    wide=st.booleans(),
    locations=st.lists(
        st.tuples(st.integers(-1, 2), st.sampled_from([0, 1, 1, 1, 9])), min_size=60, max_size=60
    ),
)
def test_random_lookups_equal_a_dictionary(
    tmp_path: Path,
    io: PyArrowFileIO,
    numbers: list[int],
    requested: list[int],
    wide: bool,
    locations: list[tuple[int, int]],
) -> None:
    codec = ORDERED_128 if wide else ORDERED_64
    scale = 2**62 + 1 if wide else 1
    present = sorted(number * scale for number in numbers)
    file = [file for file, _ in locations][: len(present)]
    steps = np.cumsum([step for _, step in locations])[: len(present)]
    entries = row_entries(present, file, np.where(np.array(file) < 0, 0, steps).tolist(), codec)
    segment = store(io, tmp_path, entries, codec)
    all_requested = sorted({*present, *(number * scale for number in requested)})
    check_results(io, segment, entries, codec, all_requested)


@pytest.mark.usefixtures("_cached_or_by_block")
@pytest.mark.parametrize("at_once", [1, 2, 3])
@pytest.mark.parametrize("codec", [ORDERED_64, HASHED])
def test_results_do_not_depend_on_the_number_of_blocks_per_read(
    tmp_path: Path, io: PyArrowFileIO, monkeypatch: pytest.MonkeyPatch, at_once: int, codec: KeyCodec
) -> None:
    monkeypatch.setattr(lookup, "BLOCKS_PER_READ", at_once)
    random = np.random.default_rng(at_once)
    numbers = random_numbers(codec, 12 * BLOCK_ROWS + 5, random)
    entries = make_entries(codec, numbers, random)
    segment = store(io, tmp_path, entries, codec)
    check_results(io, segment, entries, codec, keys_around(numbers, codec, random))
    few = sorted(numbers[block * BLOCK_ROWS + 17] for block in (0, 1, 4, 6, 11))
    check_results(io, segment, entries, codec, few)


@pytest.mark.parametrize("codec", CODECS)
def test_range_of_entries_is_read(tmp_path: Path, io: PyArrowFileIO, codec: KeyCodec) -> None:
    random = np.random.default_rng(5)
    numbers = random_numbers(codec, 5000, random)
    entries = make_entries(codec, numbers, random)
    segment = store(io, tmp_path, entries, codec)
    for _ in range(40):
        start, end = sorted(random.integers(0, len(numbers), 2).tolist())
        first, last = max(0, numbers[start] - int(random.integers(0, 2))), numbers[end]
        inside = entries.keys.slice_between(first, last)
        expected = Entries(
            entries.keys.take(inside), entries.file[inside], entries.pos[inside], entries.orders[inside]
        )
        check_same(read_segment_entries(io, segment, first, last), expected)
        trimmed = segment.model_copy(update={"first_key": first, "last_key": last})
        check_same(read_segment_entries(io, trimmed), expected)
    assert len(read_segment_entries(io, segment.model_copy(update={"first_key": 1, "last_key": 0}))) == 0


@pytest.mark.usefixtures("_cached_or_by_block")
@pytest.mark.parametrize("at_once", [1, 3, 1024])
@pytest.mark.parametrize("codec", CODECS)
def test_disjoint_segments_are_searched_together(
    tmp_path: Path, io: PyArrowFileIO, monkeypatch: pytest.MonkeyPatch, codec: KeyCodec, at_once: int
) -> None:
    """Segments of any size and order, so that tails lie between full blocks; some are trimmed at the start."""
    monkeypatch.setattr(lookup, "BLOCKS_PER_READ", at_once)
    random = np.random.default_rng(at_once)
    numbers = random_numbers(codec, 3000, random)
    cuts = sorted(random.choice(np.arange(1, len(numbers)), 7, replace=False).tolist())
    segments, known = [], {}
    for start, end in pairwise([0, *cuts, len(numbers)]):
        entries = make_entries(codec, numbers[start:end], random)
        skipped = int(random.integers(0, min(end - start, 3)))
        first = numbers[start + skipped]
        segment = store(io, tmp_path, entries, codec).model_copy(update={"first_key": first})
        segments.append(segment)
        for entry, (number, row) in enumerate(model(entries).items()):
            if number >= first:
                known[number] = segment.path, entry, *row
    shuffled = [segments[at] for at in random.permutation(len(segments))]
    requested = keys_around(numbers, codec, random)
    found = find_keys(io, shuffled, make_keys(codec, requested))
    results = {
        requested[at]: (shuffled[segment_index].path, entry, file, pos)
        for at, segment_index, file, pos, entry in zip(
            found.key_index.tolist(),
            found.segment_index.tolist(),
            found.file.tolist(),
            found.pos.tolist(),
            found.entry.tolist(),
            strict=True,
        )
    }
    assert results == {number: known[number] for number in requested if number in known}
