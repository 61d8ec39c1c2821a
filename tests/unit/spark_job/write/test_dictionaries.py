from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_job.columns.estimate_distinct import estimate_distinct
from spark_job.write.dictionaries import benefits_from_dictionary

MAX_BYTES = 2 << 20


def benefits(values: object, max_bytes: int = MAX_BYTES) -> bool:
    return benefits_from_dictionary(pa.chunked_array([pa.array(values)]), max_bytes)


@pytest.mark.parametrize("rows", [10, 4096, 200_000])
def test_unique_values_get_no_dictionary(rows: int) -> None:
    assert not benefits(np.arange(rows))


@pytest.mark.parametrize("kinds", [1, 100, 20_000])
def test_repeated_values_get_a_dictionary(kinds: int) -> None:
    assert benefits(np.random.default_rng(1).integers(0, kinds, 200_000))


def test_sorted_repeated_values_get_a_dictionary() -> None:
    assert benefits(np.repeat(np.arange(20_000), 10))


def test_dictionary_above_its_size_limit_is_not_used() -> None:
    texts = [f"{number:0>200}" for number in np.random.default_rng(1).integers(0, 20_000, 100_000)]
    assert benefits(texts, 8 << 20)
    assert not benefits(texts, 1 << 20)


def test_nulls_are_not_values() -> None:
    assert benefits([None] * 10)
    assert not benefits([*range(100), *[None] * 1000])


@pytest.mark.parametrize("kinds", [1_000, 50_000, 300_000])
def test_distinct_values_are_estimated_from_a_sample(kinds: int) -> None:
    values = np.random.default_rng(1).integers(0, kinds, 1_000_000)
    seen = len(np.unique(values[::244]))
    assert 0.6 < estimate_distinct(len(values[::244]), seen, len(values)) / len(np.unique(values)) < 1.6
