"""Decide which columns benefit from a Parquet dictionary.

If nearly all values are distinct, a dictionary repeats the column and costs more than writing it. Parquet's writer
notices only when the dictionary exceeds its limit, which is too late.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_job.columns.distinct import distinct
from spark_job.iceberg.leaf_columns import to_physical

_SAMPLE_VALUES = 4096
_MIN_REPEATS = 2  # on average, per dictionary entry


def benefits_from_dictionary(column: pa.ChunkedArray, max_bytes: int) -> bool:
    """Return whether a random sample suggests that values repeat often enough and their dictionary fits."""
    valid = len(column) - column.null_count
    if valid == 0:
        return True
    sample = to_physical(_sample(column))
    known = len(sample) - sample.null_count
    if known < 2:
        return True
    distinct_values = estimate_distinct(known, int(pc.count_distinct(sample).as_py()), valid)
    width = float(sample.nbytes / known)
    return distinct_values * _MIN_REPEATS <= valid and distinct_values * width <= max_bytes


def _sample(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values at random rows: at equal distances, sorted values would never repeat."""
    if len(column) <= _SAMPLE_VALUES:
        return column
    rows = np.random.default_rng(_SAMPLE_VALUES).integers(0, len(column), _SAMPLE_VALUES)
    return column.take(pa.array(distinct(rows)))


def estimate_distinct(sampled: int, seen: int, total: int) -> float:
    """Estimate the distinct values among `total`, given those seen in a sample; assumes equal frequencies."""
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
