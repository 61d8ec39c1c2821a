"""Values as JSON, in the single-value form of the Iceberg spec."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from spark_job.columns.json_values import value_as_json
from spark_job.commands.explain.find_row import FileWriter, find_writer
from spark_job.iceberg.property_names import PROPERTY_CURSOR


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
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
def test_value_has_the_json_form_of_the_spec(value: Any, kind: pa.DataType, expected: Any) -> None:
    assert value_as_json(pa.array([value], kind)[0]) == expected


def snapshot(number: int, operation: Operation, **properties: str) -> Snapshot:
    summary = Summary(operation, **properties)
    fields = {"snapshot-id": number, "timestamp-ms": 0, "manifest-list": "", "summary": summary}
    return Snapshot.model_validate(fields)


def test_writer_of_a_data_file_is_determined_by_its_snapshot() -> None:
    snapshots = [
        snapshot(1, Operation.OVERWRITE, **{PROPERTY_CURSOR: "{}"}),
        snapshot(2, Operation.REPLACE, **{PROPERTY_CURSOR: "{}"}),
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
