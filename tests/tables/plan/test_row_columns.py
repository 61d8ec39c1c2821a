"""Included and excluded columns of a mirror, and the case of their names."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

from icemirror.errors import Invalid
from spark_job.commands.adopt.adopt_table import adopt_table
from spark_job.commands.explain.explain_key import explain_key
from tests.lab.column_changes import assert_sound, change_columns, commit_events, rebuild, rows
from tests.lab.lab import Lab, changelog_schema

PEOPLE = changelog_schema(("id", LongType()), ("name", StringType()), ("ssn", StringType()))
SECRET = "123-45-6789"  # noqa: S105


def make(folder: Path, options: str) -> Lab:
    lab = Lab.make(folder, PEOPLE, options=options)
    commit_events(lab, "I1@1", "I2@1", name="old", ssn=SECRET)
    lab.merge()
    return lab


def mirrored_bytes(lab: Lab) -> bytes:
    """Return all bytes that mirror and index have written, with Parquet decoded."""
    warehouse = lab.folder / "warehouse"
    content = b""
    for name in lab.files_on_disk():
        path = warehouse / name
        content += path.read_bytes()
        if path.suffix == ".parquet":
            content += str(pq.read_table(path).to_pylist()).encode()
    return content


def test_excluded_value_is_stored_nowhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lab = make(tmp_path, "columns: {exclude: [ssn]}")
    commit_events(lab, "U1@2", name="new", ssn=SECRET)
    lab.merge()
    assert rows(lab) == [{"id": 1, "name": "new"}, {"id": 2, "name": "old"}]
    assert_sound(lab)
    assert SECRET.encode() not in mirrored_bytes(lab)
    assert SECRET not in explain_key(lab.pipeline, lab.table, "1").model_dump_json()
    printed = capfd.readouterr()
    assert SECRET not in printed.out + printed.err


def test_renamed_excluded_column_stays_excluded(
    tmp_path: Path,
) -> None:
    lab = make(tmp_path, "columns: {exclude: [ssn]}\nschema_policy: strict")
    change_columns(lab, lambda to: to.rename_column("ssn", "social_security"))
    commit_events(lab, "U1@2", name="new", social_security=SECRET)
    lab.merge()
    change_columns(lab, lambda to: to.update_column("social_security", IntegerType()))
    commit_events(lab, "U1@3", name="newer", social_security=5)
    lab.merge()
    change_columns(lab, lambda to: to.delete_column("social_security"))
    commit_events(lab, "U1@4", name="newest")
    lab.merge()
    assert rows(lab) == [{"id": 1, "name": "newest"}, {"id": 2, "name": "old"}]
    assert SECRET.encode() not in mirrored_bytes(lab)


def test_column_excluded_later_is_removed_from_the_mirror(tmp_path: Path) -> None:
    lab = make(tmp_path, "")
    excluding = lab.reconfigure("columns: {exclude: [ssn]}")
    change_columns(lab, lambda to: to.rename_column("ssn", "social"))
    commit_events(lab, "U1@2", name="new", social=SECRET)
    excluding.merge()
    assert rows(lab) == [{"id": 1, "name": "new"}, {"id": 2, "name": "old"}]
    rebuild(excluding)
    assert rows(lab) == [{"id": 1, "name": "new"}, {"id": 2, "name": "old"}]
    assert_sound(excluding)


def test_column_included_again_has_the_values_of_new_rows(tmp_path: Path) -> None:
    lab = make(tmp_path, "columns: {exclude: [ssn]}")
    including = lab.reconfigure()
    commit_events(lab, "U1@2", name="new", ssn="x")
    including.merge()
    assert rows(lab) == [
        {"id": 1, "name": "new", "ssn": "x"},
        {"id": 2, "name": "old", "ssn": None},
    ]


def test_mirror_has_only_included_columns_and_the_key(tmp_path: Path) -> None:
    lab = make(tmp_path, "columns: {include: [name]}")
    change_columns(
        lab, lambda to: to.add_column("more", LongType()), lambda to: to.rename_column("name", "title")
    )
    commit_events(lab, "U1@2", title="new", ssn=SECRET, more=1)
    lab.merge()
    assert rows(lab) == [{"id": 1, "title": "new"}, {"id": 2, "title": "old"}]
    assert_sound(lab)


def test_key_column_cannot_be_excluded(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, PEOPLE, options="columns: {exclude: [id]}")
    commit_events(lab, "I1@1", name="x")
    with pytest.raises(Invalid, match=r"column id is part of the key"):
        lab.pipeline.advance(lab.table)
    assert not lab.catalog.table_exists("lab.world")


@pytest.mark.parametrize("setting", ["exclude", "include"])
def test_unknown_column_name_is_refused(tmp_path: Path, setting: str) -> None:
    lab = Lab.make(tmp_path, PEOPLE, options=f"columns: {{{setting}: [ssm]}}")
    commit_events(lab, "I1@1", name="x")
    with pytest.raises(Invalid, match=r"columns names ssm, but .* has no column ssm; did you mean ssn\?"):
        lab.pipeline.advance(lab.table)


MIXED = changelog_schema(
    ("id", LongType()),
    ("Name", StringType()),
    ("Home", StructType(NestedField(50, "Zip", IntegerType()), NestedField(51, "City", StringType()))),
)


def test_names_are_lower_case_at_every_depth_also_after_schema_changes(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, MIXED, options="name_case: lower")
    commit_events(lab, "I1@1", Name="x", Home={"Zip": 1, "City": "A"})
    lab.merge()
    change_columns(
        lab, lambda to: to.add_column("MoreOfIt", LongType()), lambda to: to.rename_column("Name", "FullName")
    )
    commit_events(lab, "I2@2", FullName="y", Home={"Zip": 2, "City": "B"}, MoreOfIt=5)
    lab.merge()
    assert rows(lab) == [
        {"id": 1, "fullname": "x", "home": {"zip": 1, "city": "A"}, "moreofit": None},
        {"id": 2, "fullname": "y", "home": {"zip": 2, "city": "B"}, "moreofit": 5},
    ]
    assert_sound(lab)


def test_names_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, MIXED, options="name_case: lower")
    commit_events(lab, "I1@1", Name="x")
    lab.merge()
    change_columns(lab, lambda to: to.add_column("NAME", LongType()))
    commit_events(lab, "I2@2", Name="y", NAME=1)
    with pytest.raises(Invalid, match=r"columns Name and NAME would have the same name"):
        lab.pipeline.advance(lab.table)
    change_columns(
        lab, lambda to: to.delete_column("NAME"), lambda to: to.add_column(("Home", "CITY"), StringType())
    )
    with pytest.raises(Invalid, match=r"columns City and CITY in Home would have the same name"):
        lab.pipeline.advance(lab.table)


def test_metadata_columns_are_lower_case_too(tmp_path: Path) -> None:
    options = (
        "name_case: lower\ndelete_mode: soft\ndeleted_column: Gone\nmetadata_columns: {synced_at: Synced}"
    )
    lab = make(tmp_path, options)
    assert lab.mirror.schema().column_names == ["id", "name", "ssn", "synced", "gone"]
    change_columns(lab, lambda to: to.add_column("SYNCED", StringType()))
    commit_events(lab, "U1@2", name="new")
    with pytest.raises(
        Invalid, match=r"already has a column synced, .* Set metadata_columns\.synced_at to another name"
    ):
        lab.pipeline.advance(lab.table)


def test_table_with_lower_case_names_is_adopted(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, MIXED, options="name_case: lower")
    commit_events(lab, "I1@1", Name="x", Home={"Zip": 1, "City": "A"})
    lab.merge()
    schema = lab.mirror.schema()
    lab.catalog.drop_table("lab.world")
    lab.catalog.create_table("lab.world", schema)
    adopt_table(lab.pipeline, lab.table, "none", dry_run=False)
    lab.merge()
    assert rows(lab) == [{"id": 1, "name": "x", "home": {"zip": 1, "city": "A"}}]
