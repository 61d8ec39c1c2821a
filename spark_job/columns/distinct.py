"""Sorted distinct values. `np.unique` hashes values, which takes many times as long as sorting them."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)


def distinct(values: NDArray[T]) -> NDArray[T]:
    """Return each value once, ascending."""
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def distinct_union(left: NDArray[T], right: NDArray[T]) -> NDArray[T]:
    """Return each value of either array once, ascending."""
    return distinct(np.concatenate([left, right]))
