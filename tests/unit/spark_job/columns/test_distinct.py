from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_job.columns.distinct import distinct, distinct_union

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5), max_size=30)


@given(values=NUMBERS, more=NUMBERS)
def test_distinct_values_are_sorted(values: list[int], more: list[int]) -> None:
    left, right = np.array(values, dtype=np.int64), np.array(more, dtype=np.int64)
    assert distinct(left).tolist() == sorted(set(values))
    assert distinct_union(left, right).tolist() == sorted({*values, *more})
    assert left.tolist() == values


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.intp])
def test_dtype_is_kept(dtype: type[np.generic]) -> None:
    assert distinct(np.array([3, 1, 3], dtype=dtype)).dtype == dtype
    assert len(distinct(np.empty(0, dtype=dtype))) == 0
