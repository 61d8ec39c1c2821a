from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_job.write.dictionaries import benefits_from_dictionary, estimate_distinct

MOST_BYTES = 2 << 20


def worth(values: object, most_bytes: int = MOST_BYTES) -> bool:
    return benefits_from_dictionary(pa.chunked_array([pa.array(values)]), most_bytes)


@pytest.mark.parametrize("rows", [10, 4096, 200_000])
def test_values_that_never_repeat_get_none(rows: int) -> None:
    assert not worth(np.arange(rows))


@pytest.mark.parametrize("kinds", [1, 100, 20_000])
def test_values_that_repeat_get_one(kinds: int) -> None:
    assert worth(np.random.default_rng(1).integers(0, kinds, 200_000))


def test_sorted_values_that_repeat_get_one() -> None:
    assert worth(np.repeat(np.arange(20_000), 10))


def test_a_dictionary_that_would_outgrow_its_limit_is_not_begun() -> None:
    texts = [f"{number:0>200}" for number in np.random.default_rng(1).integers(0, 20_000, 100_000)]
    assert worth(texts, 8 << 20)
    assert not worth(texts, 1 << 20)


def test_nulls_are_no_values() -> None:
    assert worth([None] * 10)
    assert not worth([*range(100), *[None] * 1000])


@pytest.mark.parametrize("kinds", [1_000, 50_000, 300_000])
def test_distinct_values_are_estimated_from_a_sample(kinds: int) -> None:
    values = np.random.default_rng(1).integers(0, kinds, 1_000_000)
    seen = len(np.unique(values[::244]))
    assert 0.6 < estimate_distinct(len(values[::244]), seen, len(values)) / len(np.unique(values)) < 1.6
