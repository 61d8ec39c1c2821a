"""Values as JSON, as the Iceberg spec writes single values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from spark_job.columns.json_values import value_as_json
from spark_job.iceberg.mirror import CURSOR
from spark_job.inspect.explain.find_row import FileWriter, find_writer


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (None, pa.string(), None),
        (True, pa.bool_(), True),
        (-(2**63), pa.int64(), -(2**63)),
        (1.5, pa.float64(), 1.5),
        (float("nan"), pa.float64(), "NaN"),
        (float("-inf"), pa.float32(), "-Infinity"),
        (Decimal("14.20"), pa.decimal128(9, 2), "14.20"),
        (b"\x00\xff", pa.binary(), "00ff"),
        (b"\x00" * 15 + b"\x01", pa.uuid(), "00000000-0000-0000-0000-000000000001"),
        (-719_162, pa.date32(), "0001-01-01"),
        (60_500_000, pa.time64("us"), "00:01:00.500000"),
        (-1, pa.timestamp("us"), "1969-12-31T23:59:59.999999"),
        (1, pa.timestamp("ns", "UTC"), "1970-01-01T00:00:00.000000001+00:00"),
        (2**62, pa.timestamp("us"), "148108-07-06T14:00:27.387904"),
        ([1, None], pa.list_(pa.int32()), [1, None]),
        ([], pa.large_list(pa.int32()), []),
        ({"a": 1, "b": [2]}, pa.struct([("a", pa.int64()), ("b", pa.list_(pa.int64()))]), {"a": 1, "b": [2]}),
        (
            [("k", 1), ("l", None)],
            pa.map_(pa.string(), pa.int64()),
            {"keys": ["k", "l"], "values": [1, None]},
        ),
    ],
)
def test_a_value_is_shown_as_the_spec_writes_it(value: Any, kind: pa.DataType, shown: Any) -> None:
    assert value_as_json(pa.array([value], kind)[0]) == shown


def snapshot(number: int, operation: Operation, **told: str) -> Snapshot:
    summary = Summary(operation, **told)
    told_of = {"snapshot-id": number, "timestamp-ms": 0, "manifest-list": "", "summary": summary}
    return Snapshot.model_validate(told_of)


def test_who_added_a_data_file_is_known_by_its_snapshot() -> None:
    snapshots = [
        snapshot(1, Operation.OVERWRITE, **{CURSOR: "{}"}),
        snapshot(2, Operation.REPLACE, **{CURSOR: "{}"}),
        snapshot(3, Operation.APPEND),
    ]
    found = [find_writer(snapshots, number)[0] for number in (1, 2, 3, 4, None)]
    assert found == [
        FileWriter.MERGE,
        FileWriter.COMPACTION,
        FileWriter.OTHER,
        FileWriter.UNKNOWN,
        FileWriter.UNKNOWN,
    ]
