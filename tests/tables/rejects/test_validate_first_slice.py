"""A mirror is created only after its first slice and its definition are validated."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.types import LongType, StringType

from icemirror.errors import Corrupt, Invalid, Kind
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.read_events import read_events, validate_file
from spark_job.engine.engine import InProcessEngine
from spark_job.plan.describe_plan import describe_plan
from spark_job.rejects.validate_first_slice import validate_first_slice
from tests.lab.bad_input import BAD
from tests.lab.lab import Lab, changelog_schema, rows_table, sequence_text

NARROW = ("unknown operation", "NULL operation", "NULL key", "malformed sequence", "NULL sequence")
KEYS = {"ordered": ("id",), "hashed": ("id", "name")}


def files_of(lab: Lab) -> tuple[ChangelogFile, ...]:
    return tuple(
        file for planned in lab.pipeline.planner.require_plan(lab.table).slices for file in planned.files
    )


def validate(lab: Lab, shards: int = 1) -> None:
    table_plan = lab.pipeline.planner.require_plan(lab.table)
    validate_first_slice(InProcessEngine(shards), table_plan.changelog.io, files_of(lab), table_plan.shape)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("keys", KEYS)
def test_good_events_pass_with_each_kind_of_key(tmp_path: Path, keys: str, shards: int) -> None:
    schema = changelog_schema(("id", LongType()), ("name", StringType()), keys=KEYS[keys])
    lab = Lab.make(tmp_path, schema)
    rows = [
        {"id": key, "name": "x", "cdc_operation": "INSERT", "sequence_number": sequence_text(key)}
        for key in range(50)
    ]
    lab.commit(rows_table(schema, rows[:30]), rows_table(schema, rows[30:]))
    before = lab.files_on_disk()
    validate(lab, shards)
    assert lab.files_on_disk() == before


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", NARROW)
def test_validation_raises_the_same_errors_as_the_merge(tmp_path: Path, name: str, shards: int) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I7@1 I8@1")
    BAD[name][0](lab)
    table_plan = lab.pipeline.planner.require_plan(lab.table)
    bad = files_of(lab)[-1]
    with pytest.raises(Invalid) as merge_error:
        read_events(table_plan.changelog.io, bad, 0, table_plan.shape)
    with pytest.raises(Invalid) as validation_error:
        validate_file(table_plan.changelog.io, bad, table_plan.shape)
    assert str(validation_error.value) == str(merge_error.value)
    with pytest.raises(Invalid):
        validate(lab, shards)


def test_unreadable_file_is_found(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    BAD["truncated file"][0](lab)
    with pytest.raises(Corrupt):
        validate(lab)


def test_first_merge_after_a_failed_validation_uses_the_current_settings(tmp_path: Path) -> None:
    """The failed merge left no empty mirror, whose partition spec would be kept."""
    lab = Lab.make(tmp_path)
    BAD["unknown operation"][0](lab)
    assert lab.try_merge().outcome == "failed"
    repaired = lab.reconfigure(
        "operation_values: {insert: [INSERT], update: [UPDATE, TRUNCATE]}\npartition_by: ['bucket[4](id)']"
    )
    assert repaired.merge().live_rows == 2
    assert [field.name for field in repaired.mirror.spec().fields] == ["id_bucket"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("partition_by: [day(name)]", "is not defined for type string"),
        ("partition_by: [nane]", "did you mean name"),
        ("format_version: 3\nprimary_keys: [_row_id]", "cannot have a column _row_id"),
    ],
)
def test_plan_and_merge_fail_alike_if_the_mirror_cannot_be_created(
    tmp_path: Path, options: str, message: str
) -> None:
    schema = changelog_schema(("_row_id", LongType()), ("id", LongType()), ("name", StringType()))
    lab = Lab.make(tmp_path, schema, options=options)
    row = {"_row_id": 1, "id": 1, "name": "x", "cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
    lab.commit(rows_table(schema, [row]))
    with pytest.raises(Invalid, match=message):
        describe_plan(lab.pipeline.planner.require_plan(lab.table))
    error = lab.try_merge().error
    assert error is not None
    assert message in error.message
    assert not lab.catalog.table_exists("lab.world")


def test_create_only_checks_do_not_stop_the_plan_of_an_existing_mirror(
    tmp_path: Path,
) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")
    lab.merge()
    lab.commit_events("U1@2")
    reconfigured = lab.reconfigure("partition_by: [day(name)]")
    assert describe_plan(reconfigured.pipeline.planner.require_plan(reconfigured.table)).slices == 1
    assert reconfigured.merge().live_rows == 1


def test_catalog_without_a_default_location_blocks_the_table(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")
    lab.catalog.properties.pop("warehouse")
    error = lab.try_merge().error
    assert error is not None
    assert error.kind is Kind.INVALID
    assert "Set the catalog's warehouse" in error.message
    assert lab.files_on_disk() == set()
