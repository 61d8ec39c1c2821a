"""Rows of seven columns, about 50 bytes in Parquet: an account and its balance."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.workloads.workload import Ids

SHAPE = "narrow"

_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("balance", pa.float64()),
        pa.field("created", pa.timestamp("us", "UTC")),
        pa.field("status", pa.string()),
        pa.field("n1", pa.int64()),
        pa.field("n2", pa.int64()),
    ]
)
_STATES = np.array([str(state) for state in range(5)])


def make_narrow_rows(ids: Ids, rng: np.random.Generator) -> pa.Table:
    """Rows with these ids and random values."""
    count = len(ids)
    columns = [
        pa.array(ids),
        pa.array(np.char.add("user_", ids.astype(str))),
        pa.array(rng.random(count) * 1000),
        pa.array(rng.integers(1_600_000_000, 1_700_000_000, count) * 1_000_000).cast(
            pa.timestamp("us", "UTC")
        ),
        pa.array(_STATES[rng.integers(0, 5, count)]),
        pa.array(rng.integers(0, 1 << 40, count)),
        pa.array(rng.integers(0, 1000, count)),
    ]
    return pa.table(columns, schema=_SCHEMA)
