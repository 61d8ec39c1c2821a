from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_job.columns.distinct import distinct, distinct_union

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5), max_size=30)


@given(values=NUMBERS, more=NUMBERS)
def test_each_value_once_and_ascending(values: list[int], more: list[int]) -> None:
    one, other = np.array(values, dtype=np.int64), np.array(more, dtype=np.int64)
    assert distinct(one).tolist() == sorted(set(values))
    assert distinct_union(one, other).tolist() == sorted({*values, *more})
    assert one.tolist() == values


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.intp])
def test_the_type_stays(dtype: type[np.generic]) -> None:
    assert distinct(np.array([3, 1, 3], dtype=dtype)).dtype == dtype
    assert len(distinct(np.empty(0, dtype=dtype))) == 0
