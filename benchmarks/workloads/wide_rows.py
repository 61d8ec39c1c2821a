"""Rows of forty columns, about 1 KB: facts of a day, numbers and texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.workloads.workload import Ids, Shape

DAYS = 36
_FIRST_DAY = 19_723  # 2024-01-01
_OF_EACH = 19
_POOL = 20_000


def make_wide_rows(ids: Ids, rng: np.random.Generator) -> pa.Table:
    """Rows with these ids; the texts come from a pool, so that a page of them has a dictionary."""
    count = len(ids)
    texts = pa.array([rng.bytes(24).hex() for _ in range(_POOL)])
    columns = {
        "id": pa.array(ids),
        "day": pa.array((ids % DAYS + _FIRST_DAY).astype(np.int32)).cast(pa.date32()),
        **{f"i{number}": pa.array(rng.integers(0, 1 << 40, count)) for number in range(_OF_EACH)},
        **{f"s{number}": texts.take(pa.array(rng.integers(0, _POOL, count))) for number in range(_OF_EACH)},
    }
    fields = [pa.field(name, column.type, nullable=name != "id") for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


WIDE = Shape("wide", make_wide_rows, partition="day")
