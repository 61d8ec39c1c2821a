"""Each value once, ascending. `np.unique` finds them by hashing, which takes many times as long as sorting does."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)


def distinct(values: NDArray[T]) -> NDArray[T]:
    """The values that occur."""
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def united(one: NDArray[T], other: NDArray[T]) -> NDArray[T]:
    """The values that occur in either."""
    return distinct(np.concatenate([one, other]))
