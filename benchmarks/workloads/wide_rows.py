"""Rows of forty columns, about 1 KB: daily facts with numbers and texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.workloads.workload import Ids, Shape

DAYS = 36
_FIRST_DAY = 19_723  # 2024-01-01
_COLUMNS_PER_TYPE = 19
_POOL_SIZE = 20_000


def make_wide_rows(ids: Ids, rng: np.random.Generator) -> pa.Table:
    """Return rows with these ids; the texts are from a pool, so that pages are dictionary-encoded."""
    count = len(ids)
    texts = pa.array([rng.bytes(24).hex() for _ in range(_POOL_SIZE)])
    columns = {
        "id": pa.array(ids),
        "day": pa.array((ids % DAYS + _FIRST_DAY).astype(np.int32)).cast(pa.date32()),
        **{f"i{number}": pa.array(rng.integers(0, 1 << 40, count)) for number in range(_COLUMNS_PER_TYPE)},
        **{
            f"s{number}": texts.take(pa.array(rng.integers(0, _POOL_SIZE, count)))
            for number in range(_COLUMNS_PER_TYPE)
        },
    }
    fields = [pa.field(name, column.type, nullable=name != "id") for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


WIDE = Shape("wide", make_wide_rows, partition="day")
