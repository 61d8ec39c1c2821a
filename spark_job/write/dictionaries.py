"""Decide which columns benefit from a Parquet dictionary.

If nearly all values are distinct, a dictionary repeats the column and costs more than writing it. Parquet's writer
notices only when the dictionary exceeds its limit, which is too late.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_job.columns.distinct import distinct
from spark_job.columns.estimate_distinct import estimate_distinct
from spark_job.columns.physical_values import to_physical

_SAMPLE_VALUES = 4096
_MIN_REPEATS = 2  # on average, per dictionary entry


def benefits_from_dictionary(column: pa.ChunkedArray, max_bytes: int) -> bool:
    """Return whether a random sample suggests that values repeat often enough and their dictionary fits."""
    value_count = len(column) - column.null_count
    if value_count == 0:
        return True
    sample = to_physical(_sample(column))
    sampled_count = len(sample) - sample.null_count
    if sampled_count < 2:
        return True
    sampled_distinct = int(pc.count_distinct(sample).as_py())
    distinct_count = estimate_distinct(sampled_count, sampled_distinct, value_count)
    value_bytes = float(sample.nbytes / sampled_count)
    return distinct_count * _MIN_REPEATS <= value_count and distinct_count * value_bytes <= max_bytes


def _sample(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values at random rows: at equal distances, sorted values would never repeat."""
    if len(column) <= _SAMPLE_VALUES:
        return column
    rows = np.random.default_rng(_SAMPLE_VALUES).integers(0, len(column), _SAMPLE_VALUES)
    return column.take(pa.array(distinct(rows)))
