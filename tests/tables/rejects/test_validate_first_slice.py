"""A mirror is created after its first slice and its definition are validated."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.types import LongType, StringType

from icemirror.errors import Corrupt, Invalid, Kind
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.read_changes import read_changes, validate_file
from spark_job.engine.engine import InProcessEngine
from spark_job.plan.planner import describe_plan
from spark_job.rejects.validate_first_slice import validate_first_slice
from tests.lab.lab import Lab, changelog_schema, rows_table, sequence_text
from tests.tables.changelog.test_bad_input import BAD

NARROW = ("unknown operation", "no operation", "NULL key", "malformed sequence", "NULL sequence")
KEYS = {"ordered": ("id",), "hashed": ("id", "name")}


def files_of(lab: Lab) -> tuple[ChangelogFile, ...]:
    return tuple(file for part in lab.pipeline.planner.require_plan(lab.table).slices for file in part.files)


def look(lab: Lab, shards: int = 1) -> None:
    prepared = lab.pipeline.planner.require_plan(lab.table)
    validate_first_slice(InProcessEngine(shards), prepared.changelog.io, files_of(lab), prepared.shape)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("keys", KEYS)
def test_good_events_pass_whatever_the_key_is(tmp_path: Path, keys: str, shards: int) -> None:
    schema = changelog_schema(("id", LongType()), ("name", StringType()), keys=KEYS[keys])
    lab = Lab.make(tmp_path, schema)
    rows = [
        {"id": key, "name": "x", "cdc_operation": "INSERT", "sequence_number": sequence_text(key)}
        for key in range(50)
    ]
    lab.commit(rows_table(schema, rows[:30]), rows_table(schema, rows[30:]))
    before = lab.files_on_disk()
    look(lab, shards)
    assert lab.files_on_disk() == before


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", NARROW)
def test_validation_raises_the_same_errors_as_the_merge(tmp_path: Path, name: str, shards: int) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I7@1 I8@1")
    BAD[name][0](lab)
    prepared = lab.pipeline.planner.require_plan(lab.table)
    bad = files_of(lab)[-1]
    with pytest.raises(Invalid) as merging:
        read_changes(prepared.changelog.io, bad, 0, prepared.shape)
    with pytest.raises(Invalid) as looking:
        validate_file(prepared.changelog.io, bad, prepared.shape)
    assert str(looking.value) == str(merging.value)
    with pytest.raises(Invalid):
        look(lab, shards)


def test_a_file_that_cannot_be_read_is_found(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    BAD["truncated file"][0](lab)
    with pytest.raises(Corrupt):
        look(lab)


def test_files_that_were_repaired_are_merged_with_the_configuration_as_it_is_then(tmp_path: Path) -> None:
    """No empty mirror was left, whose partitions would count."""
    lab = Lab.make(tmp_path)
    BAD["unknown operation"][0](lab)
    assert lab.try_merge().outcome == "failed"
    mended = lab.reconfigure(
        "operation_values: {insert: [INSERT], update: [UPDATE, TRUNCATE]}\npartition_by: ['bucket[4](id)']"
    )
    assert mended.merge().live_rows == 2
    assert [field.name for field in mended.mirror.spec().fields] == ["id_bucket"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("partition_by: [day(name)]", "is not defined for type string"),
        ("partition_by: [nane]", "did you mean name"),
        ("format_version: 3\nprimary_keys: [_row_id]", "cannot have a column _row_id"),
    ],
)
def test_a_plan_ends_as_the_merge_does_for_a_mirror_that_cannot_be_made(
    tmp_path: Path, options: str, told: str
) -> None:
    schema = changelog_schema(("_row_id", LongType()), ("id", LongType()), ("name", StringType()))
    lab = Lab.make(tmp_path, schema, options=options)
    row = {"_row_id": 1, "id": 1, "name": "x", "cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
    lab.commit(rows_table(schema, [row]))
    with pytest.raises(Invalid, match=told):
        describe_plan(lab.pipeline.planner.require_plan(lab.table))
    error = lab.try_merge().error
    assert error is not None
    assert told in error.message
    assert not lab.catalog.table_exists("lab.world")


def test_create_only_checks_do_not_stop_the_plan_of_an_existing_mirror(
    tmp_path: Path,
) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")
    lab.merge()
    lab.commit_events("U1@2")
    later = lab.reconfigure("partition_by: [day(name)]")
    assert describe_plan(later.pipeline.planner.require_plan(later.table)).slices == 1
    assert later.merge().live_rows == 1


def test_catalog_without_a_default_location_blocks_the_table(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")
    lab.catalog.properties.pop("warehouse")
    error = lab.try_merge().error
    assert error is not None
    assert error.kind is Kind.INVALID
    assert "Set the catalog's warehouse" in error.message
    assert lab.files_on_disk() == set()
