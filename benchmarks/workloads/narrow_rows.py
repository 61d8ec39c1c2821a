"""Rows of seven columns, about 50 bytes in Parquet: an account and its balance, by number or by uuid."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.workloads.uuid_text import uuid_texts
from benchmarks.workloads.workload import Ids, Shape

_STATES = pa.array([str(state) for state in range(5)])


def make_narrow_rows(ids: Ids, rng: np.random.Generator) -> pa.Table:
    """Return rows with these ids and random values."""
    return pa.table([pa.array(ids), *_values(ids, rng)], schema=_schema(pa.int64()))


def make_uuid_rows(ids: Ids, rng: np.random.Generator) -> pa.Table:
    """Return such rows with a uuid in text form as the key."""
    return pa.table([uuid_texts(ids), *_values(ids, rng)], schema=_schema(pa.string()))


NARROW = Shape("narrow", make_narrow_rows)
NARROW_STREAMED = Shape("narrow-streamed", make_narrow_rows, streamed=True)
UUID = Shape("uuid", make_uuid_rows)


def _schema(key: pa.DataType) -> pa.Schema:
    return pa.schema(
        [
            pa.field("id", key, nullable=False),
            pa.field("name", pa.string()),
            pa.field("balance", pa.float64()),
            pa.field("created", pa.timestamp("us", "UTC")),
            pa.field("status", pa.string()),
            pa.field("n1", pa.int64()),
            pa.field("n2", pa.int64()),
        ]
    )


def _values(ids: Ids, rng: np.random.Generator) -> list[pa.Array]:
    count = len(ids)
    seconds = pa.array(rng.integers(1_600_000_000, 1_700_000_000, count) * 1_000_000)
    return [
        pc.binary_join_element_wise("user", pa.array(ids).cast(pa.string()), "_"),
        pa.array(rng.random(count) * 1000),
        seconds.cast(pa.timestamp("us", "UTC")),
        _STATES.take(pa.array(rng.integers(0, 5, count))),
        pa.array(rng.integers(0, 1 << 40, count)),
        pa.array(rng.integers(0, 1000, count)),
    ]
