"""Estimate how many distinct values a column has, from a sample."""

from __future__ import annotations

import math


def estimate_distinct(sampled: int, seen: int, total: int) -> float:
    """Estimate the distinct values among `total`, from `seen` distinct values in a sample of `sampled`.

    All values are assumed to be equally frequent.
    """
    if sampled >= total:
        return seen
    if seen >= sampled:
        return total
    low, high = float(seen), float(total)
    for _ in range(40):
        middle = (low + high) / 2
        if middle * -math.expm1(-sampled / middle) < seen:
            low = middle
        else:
            high = middle
    return high * -math.expm1(-total / high)
