"""Which columns are worth a dictionary.

Where nearly every value is another one, a dictionary is the column once more, and making it costs more than
writing the column. Parquet's writer notices when the dictionary has outgrown its limit, that is, too late.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_job.distinct import distinct
from spark_job.iceberg.leaf_columns import physical

_SAMPLE = 4096
# A dictionary entry may stand for this many values at least, or there is no dictionary.
_LEAST_REPEATS = 2


def is_worth_a_dictionary(column: pa.ChunkedArray, most_bytes: int) -> bool:
    """Whether values repeat often enough, and their dictionary fits, by a sample from all over the column."""
    valid = len(column) - column.null_count
    if valid == 0:
        return True
    sample = physical(_sample(column))
    known = len(sample) - sample.null_count
    if known < 2:
        return True
    distinct = expected_distinct(known, int(pc.count_distinct(sample).as_py()), valid)
    width = float(sample.nbytes / known)
    return distinct * _LEAST_REPEATS <= valid and distinct * width <= most_bytes


def _sample(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values from places by chance: at equal distances, sorted values would never repeat."""
    if len(column) <= _SAMPLE:
        return column
    places = np.random.default_rng(_SAMPLE).integers(0, len(column), _SAMPLE)
    return column.take(pa.array(distinct(places)))


def expected_distinct(sampled: int, seen: int, total: int) -> float:
    """How many values differ among all, if so many did in a sample and all are equally frequent."""
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
