"""Keys with values that Python cannot represent: years before 1 and after 9999, and nanoseconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import (
    DateType,
    IcebergType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from spark_job.columns.physical_values import to_physical
from spark_job.commands.verify.describe_differences import read_key
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.iceberg.live_files import live_files
from tests.lab.lab import Lab, changelog_schema, rows_table, sequence_text

INT, LONG = 2**31, 2**63
KEYS: dict[str, tuple[IcebergType, list[int]]] = {
    "date": (DateType(), [-INT, -719_163, 0, 2_932_897, INT - 1]),
    "timestamp": (TimestampType(), [-LONG, -62_135_596_800_000_001, 0, LONG - 1]),
    "timestamptz": (TimestamptzType(), [-LONG, 0, LONG - 1]),
    "timestamp_ns": (TimestampNanoType(), [-LONG, -999, -1, 0, 1, LONG - 1]),
    "timestamptz_ns": (TimestamptzNanoType(), [-LONG, -999, -1, 0, 1, LONG - 1]),
}


@pytest.mark.parametrize("single", [True, False], ids=["single column", "composite"])
@pytest.mark.parametrize("name", KEYS)
def test_keys_that_python_cannot_represent_are_merged(tmp_path: Path, name: str, single: bool) -> None:
    kind, values = KEYS[name]
    version = max(2, kind.minimum_format_version())
    keys = ("at",) if single else ("at", "id")
    schema = changelog_schema(("at", kind), ("id", LongType()), ("name", StringType()), keys=keys)
    lab = Lab.make(tmp_path, schema, options=f"format_version: {version}", changelog_version=version)
    assert schema_to_pyarrow(lab.changelog.schema()).field("at").nullable is False

    def merge_events(operation: str, sequence: int, times: list[int]) -> None:
        cdc = {"cdc_operation": operation, "sequence_number": sequence_text(sequence)}
        rows = [{"at": at, "id": 1, "name": f"{sequence}", **cdc} for at in times]
        lab.commit(rows_table(lab.changelog.schema(), rows))
        lab.merge()

    merge_events("INSERT", 1, values)
    merge_events("UPDATE", 2, values[1:])
    merge_events("DELETE", 3, values[-1:])
    rows = lab.mirror.scan().to_arrow()
    names = dict(zip(to_physical(rows["at"]).to_pylist(), rows["name"].to_pylist(), strict=True))
    assert names == {at: "1" if at == values[0] else "2" for at in values[:-1]}
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert report.equal, report
    path = next(iter(live_files(lab.mirror.io, lab.mirror.current_snapshot())))
    key_ids = lab.mirror.schema().identifier_field_ids
    assert read_key(lab.mirror.io, path, key_ids, 0)
