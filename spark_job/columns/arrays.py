"""Types of numpy arrays, and the inverse of a permutation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


def invert_permutation(order: Indices) -> Indices:
    """Return the indices that restore the original order: `values[order][invert_permutation(order)]` is `values`."""
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return inverse
