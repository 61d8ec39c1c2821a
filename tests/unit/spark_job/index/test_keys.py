from __future__ import annotations

from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_job.index.keys import Keys, concat_keys, floor_indices
from tests.unit.spark_job.index.samples import ORDERED_64, ORDERED_128, make_keys, plain

TOP = 2**64 - 1
_FEW_128 = st.lists(
    st.sampled_from([0, 1, TOP, 2**64, 2**64 + 1, 2**65 - 1, 2**65, 2**128 - 1]), min_size=1, max_size=20
)
_FEW_64 = st.lists(st.sampled_from([0, 1, 2, 2**63, TOP - 1, TOP]), min_size=1, max_size=20)


@given(_FEW_128)
def test_wide_keys_are_sorted_by_high_half_first_and_stably(numbers: list[int]) -> None:
    order = make_keys(ORDERED_128, numbers).argsort().tolist()
    assert order == sorted(range(len(numbers)), key=lambda index: numbers[index])


@given(_FEW_64)
def test_narrow_keys_are_sorted_as_unsigned_and_stably(numbers: list[int]) -> None:
    order = make_keys(ORDERED_64, numbers).argsort().tolist()
    assert order == sorted(range(len(numbers)), key=lambda index: numbers[index])


@given(_FEW_128, st.integers(0, 2**128 - 1), st.integers(0, 2**128 - 1))
def test_bounds_include_both_ends(numbers: list[int], first: int, last: int) -> None:
    ascending = sorted(numbers)
    found = plain(
        make_keys(ORDERED_128, ascending).take(make_keys(ORDERED_128, ascending).slice_between(first, last))
    )
    assert found == [number for number in ascending if first <= number <= last]


@given(
    _FEW_128,
    st.lists(st.tuples(st.integers(0, 2**128 - 1), st.integers(0, 2**128 - 1)), max_size=5),
    _FEW_128,
)
def test_batch_of_ranges_equals_single_bounds(
    numbers: list[int], ranges: list[tuple[int, int]], ends: list[int]
) -> None:
    keys = make_keys(ORDERED_128, sorted(numbers))
    ranges += [(first, last) for first in ends for last in ends]
    for (first, last), found in zip(ranges, keys.slices_between(ranges), strict=True):
        expected = keys.slice_between(first, last)
        assert (found.start, found.stop) == (expected.start, expected.stop)


def test_bounds_of_a_present_key_include_all_its_copies() -> None:
    assert make_keys(ORDERED_64, [1, 5, 5, 9]).slice_between(5, 5) == slice(1, 3)


def test_equal_adjacent_keys_are_equal_in_both_halves() -> None:
    keys = make_keys(ORDERED_128, [3, 3, 2**64 + 3, 2**64 + 4])
    assert keys.same_as_next().tolist() == [True, False, False]
    assert make_keys(ORDERED_64, [3, 3, 4]).same_as_next().tolist() == [True, False]


def test_key_follows_the_previous_one_only_within_one_high_half() -> None:
    keys = make_keys(ORDERED_128, [TOP - 1, TOP, 2**64, 2**64 + 1, 2**64 + 3])
    assert keys.follows_previous().tolist() == [True, False, True, False]
    assert make_keys(ORDERED_64, [TOP - 2, TOP - 1, TOP]).follows_previous().tolist() == [True, True]


@pytest.mark.parametrize("codec", [ORDERED_64, ORDERED_128])
def test_keys_can_be_concatenated_and_selected(codec: object) -> None:
    keys = make_keys(ORDERED_64 if codec is ORDERED_64 else ORDERED_128, [1, 7, TOP])
    assert plain(concat_keys([keys.take(slice(0, 1)), keys.take(slice(1, 3))])) == [1, 7, TOP]
    assert plain(keys.take(np.array([True, False, True]))) == [1, TOP]
    assert plain(keys.take(np.array([2, 0]))) == [TOP, 1]


def test_key_is_returned_as_an_integer() -> None:
    keys = Keys(np.array([5], np.uint64), np.array([TOP], np.uint64))
    assert keys.at(0) == (TOP << 64) | 5
    assert keys.at(-1) == keys.at(0)


@pytest.mark.parametrize("halves", [2, 3, 1 << 30])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_last_key_that_is_not_greater_is_found_for_any_shared_halves(halves: int, count: int) -> None:
    rng = np.random.default_rng([halves, count])
    known = sorted((int(rng.integers(halves)) << 64) | int(rng.integers(halves)) for _ in range(count))
    requested = [
        0,
        TOP,
        (halves << 64) | TOP,
        *known,
        *(max(0, key - 1) for key in known),
        *(key + 1 for key in known),
    ]
    found = floor_indices(make_keys(ORDERED_128, known), make_keys(ORDERED_128, requested))
    assert found.tolist() == [bisect_right(known, key) - 1 for key in requested]
