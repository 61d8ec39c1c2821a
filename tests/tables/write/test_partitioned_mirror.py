"""Partitioned mirrors: rows that change partition, changed specs, dates outside of Python's calendar."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    IcebergType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
)

from icemirror.errors import Kind
from spark_job.columns.physical_values import to_physical
from spark_job.engine.engine import InProcessEngine
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.maintenance import choose_files
from tests.lab.lab import Lab, changelog_schema, local_path, rows_table, sequence_text

DAY = 86_400_000_000


def make(folder: Path, kind: IcebergType, partition_by: str, version: int = 2, shards: int = 1) -> Lab:
    """Create a lab with the columns id, name and v, and a partitioned mirror."""
    schema = changelog_schema(("id", LongType()), ("name", StringType()), ("v", kind))
    options = f'partition_by: ["{partition_by}"]\nformat_version: {version}\ncompact: false'
    changelog_version = max(2, kind.minimum_format_version())
    return Lab.make(
        folder, schema, options=options, engine=InProcessEngine(shards), changelog_version=changelog_version
    )


def merge_values(lab: Lab, sequence: int, rows: dict[int, Any], deleted: Sequence[int] = ()) -> None:
    """Set `v` of these keys, delete others, and merge."""
    cdc = {"sequence_number": sequence_text(sequence)}
    changed = [
        {"id": key, "name": f"{sequence}", "v": value, "cdc_operation": "UPDATE", **cdc}
        for key, value in rows.items()
    ]
    deletes = [{"id": key, "cdc_operation": "DELETE", **cdc} for key in deleted]
    lab.commit(rows_table(lab.changelog.schema(), [*changed, *deletes]))
    lab.merge()


def files(lab: Lab) -> list[LiveFile]:
    return list(live_files(lab.mirror.io, lab.mirror.current_snapshot()).values())


def live_partitions(lab: Lab) -> list[Any]:
    """Return the first partition value of each live row's file."""
    return sorted(
        (file.partition[0] for file in files(lab) for _ in range(file.live_rows)),
        key=lambda value: (value is not None, value),
    )


def values(lab: Lab) -> dict[int, Any]:
    """Return v by key, as numbers."""
    rows = lab.mirror.scan().to_arrow()
    return dict(zip(rows["id"].to_pylist(), to_physical(rows["v"]).to_pylist(), strict=True))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("shards", [1, 3])
def test_updated_rows_move_between_day_partitions_and_null(tmp_path: Path, version: int, shards: int) -> None:
    lab = make(tmp_path, TimestampType(), "day(v)", version, shards)
    merge_values(lab, 1, {1: None, 2: 0, 3: DAY, 4: -1, 5: None})
    assert live_partitions(lab) == [None, None, -1, 0, 1]
    merge_values(lab, 2, {1: DAY, 2: None, 3: DAY + 1, 4: 5 * DAY}, deleted=[5])
    assert live_partitions(lab) == [None, 1, 1, 5]
    assert values(lab) == {1: DAY, 2: None, 3: DAY + 1, 4: 5 * DAY}


@pytest.mark.parametrize(
    ("kind", "partition_by", "extremes"),
    [
        (DateType(), "v", [-(2**31), 2**31 - 1]),
        (DateType(), "day(v)", [-(2**31), 2**31 - 1]),
        (DateType(), "month(v)", [-(2**31), 2**31 - 1]),
        (DateType(), "year(v)", [-(2**31), 2**31 - 1]),
        (TimestampType(), "v", [-(2**63), 2**63 - 1]),
        (TimestampType(), "day(v)", [-(2**63), 2**63 - 1]),
        (TimestampType(), "month(v)", [-(2**63), 2**63 - 1]),
        (TimestampType(), "year(v)", [-(2**63), 2**63 - 1]),
        (TimestampType(), "hour(v)", [-(2**62), 2**62]),
    ],
    ids=str,
)
def test_dates_outside_of_pythons_calendar_have_partitions(
    tmp_path: Path, kind: IcebergType, partition_by: str, extremes: list[int]
) -> None:
    lab = make(tmp_path, kind, partition_by)
    merge_values(lab, 1, {1: extremes[0], 2: extremes[1], 3: None})
    merge_values(lab, 2, {1: extremes[1], 2: extremes[0]}, deleted=[3])
    least, greatest = live_partitions(lab)
    assert least < 0 < greatest
    assert values(lab) == {1: extremes[1], 2: extremes[0]}
    summary = lab.mirror.current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    assert summary["changed-partition-count"] is not None


def test_decimal_truncated_to_too_many_digits_is_refused(tmp_path: Path) -> None:
    lab = make(tmp_path, DecimalType(2, 0), "truncate[100](v)")
    merge_values(lab, 1, {1: Decimal(99)})
    lab.commit(
        rows_table(
            lab.changelog.schema(),
            [
                {
                    "id": 2,
                    "name": "x",
                    "v": Decimal(-1),
                    "cdc_operation": "INSERT",
                    "sequence_number": sequence_text(2),
                }
            ],
        )
    )
    before = lab.files_on_disk()
    error = lab.try_merge().error
    assert error is not None
    assert (error.kind, "more digits" in error.message) == (Kind.INVALID, True)
    assert lab.files_on_disk() == before


def test_files_follow_a_changed_spec_and_deletes_find_older_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path, LongType(), "bucket[2](v)")
    merge_values(lab, 1, {key: key for key in range(10)})
    old = {file.path: file.spec_id for file in files(lab)}
    with lab.mirror.update_spec() as update:
        update.remove_field("v_bucket")
        update.add_field("name", IdentityTransform(), "by_name")
    merge_values(lab, 2, {key: 10 + key for key in range(0, 10, 2)}, deleted=[1, 3])
    expected = {5: 5, 7: 7, 9: 9} | {key: 10 + key for key in range(0, 10, 2)}
    assert values(lab) == expected
    current = {file.path: file for file in files(lab)}
    added = [file for path, file in current.items() if path not in old]
    assert {file.spec_id for file in added} == {lab.mirror.metadata.default_spec_id} != set(old.values())
    assert {file.partition[0] for file in added} == {"2"}
    assert all(current[path].spec_id == spec_id for path, spec_id in old.items() if path in current)
    for number in (3, 4):
        merge_values(lab, number, {20 + number: 1})
    with lab.mirror.update_spec() as update:
        update.add_field("id", BucketTransform(2), "more")
    merge_values(lab, 5, {30: 1, 31: 2}, deleted=[5, 0])
    merge_values(lab, 6, {32: 1, 33: 2, 34: 5, 35: 7})
    merge_values(lab, 7, {40: 1, 41: 2, 42: 5, 43: 7, 44: 8})
    expected = values(lab)
    assert len(expected) == 19
    check_compaction(lab, monkeypatch)
    assert values(lab) == expected


def check_compaction(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that compaction skips files of older specs and writes files of the current one."""
    monkeypatch.setattr(choose_files, "FAN_IN", 2)
    spec_id = lab.mirror.metadata.default_spec_id
    before = {file.path: file.spec_id for file in files(lab)}
    lab.pipeline.compact(lab.pipeline.planner.require_plan(lab.table))
    after = {file.path: file.spec_id for file in files(lab)}
    assert {path for path, file_spec in before.items() if file_spec != spec_id} <= after.keys()
    assert {file_spec for path, file_spec in after.items() if path not in before} <= {spec_id}


def test_partition_by_an_unknown_transform_is_refused(tmp_path: Path) -> None:
    lab = make(tmp_path, LongType(), "bucket[2](v)")
    merge_values(lab, 1, {1: 1})
    path = local_path(lab.mirror.metadata_location)
    metadata = json.loads(path.read_text())
    metadata["partition-specs"][0]["fields"][0]["transform"] = "zorder"
    path.write_text(json.dumps(metadata))
    lab.commit_events()
    error = lab.reconfigure().try_merge().error
    assert error is not None
    assert error.kind is Kind.INVALID
    assert "v_bucket" in error.message


@pytest.mark.parametrize("kind", [TimestampNanoType(), TimestamptzNanoType()], ids=str)
def test_identity_partition_by_nanoseconds_is_refused(tmp_path: Path, kind: IcebergType) -> None:
    lab = make(tmp_path, kind, "v", version=3)
    error = lab.try_merge().error
    assert error is None, "an empty changelog creates no mirror"
    lab.commit(rows_table(lab.changelog.schema(), []))
    error = lab.try_merge().error
    assert error is not None
    assert (error.kind, "hour(v)" in error.message) == (Kind.INVALID, True)
    assert not lab.files_on_disk()
    by_hour = lab.reconfigure('partition_by: ["hour(v)"]\nformat_version: 3')
    by_hour.merge()
    with by_hour.mirror.update_spec() as update:
        update.add_field("v", IdentityTransform(), "themselves")
    error = by_hour.try_merge().error
    assert error is not None
    assert (error.kind, "hour(v)" in error.message) == (Kind.INVALID, True)


@pytest.mark.parametrize(("length", "named"), [(100, True), (190, False)])
def test_too_long_partition_folders_are_omitted_from_the_path(
    tmp_path: Path, length: int, named: bool
) -> None:
    names = ("a", "b", "c")
    schema = changelog_schema(("id", LongType()), *((name, StringType()) for name in names))
    lab = Lab.make(tmp_path, schema, options="partition_by: [a, b, c]")
    cdc = {"cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
    lab.commit(rows_table(schema, [{"id": 1, **dict.fromkeys(names, "x" * length), **cdc}]))
    lab.merge()
    (file,) = files(lab)
    assert ("/a=xxx" in file.path) is named
    assert list(file.partition._data) == ["x" * length] * 3
