"""A mirror follows its changelog's columns, in the commit of the rows that need them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from spark_job.commands.explain.explain_key import explain_key
from spark_job.iceberg.live_files import live_files
from tests.lab.column_changes import assert_sound, change_columns, commit_events, rows
from tests.lab.lab import ID_AND_NAME, Lab, changelog_schema, local_path

V2_AND_V3 = pytest.mark.parametrize("version", [2, 3])


def make(folder: Path, options: str = "", extra_config: str = "", schema: Schema = ID_AND_NAME) -> Lab:
    lab = Lab.make(folder, schema, options=options, extra_config=extra_config)
    commit_events(lab, "I1@1", "I2@1", name="old")
    lab.merge()
    return lab


@V2_AND_V3
def test_new_column_is_committed_with_its_rows(tmp_path: Path, version: int) -> None:
    lab = make(tmp_path, f"format_version: {version}")
    before = len(lab.mirror.metadata.snapshots)
    change_columns(lab, lambda to: to.add_column("more", LongType()))
    commit_events(lab, "U1@2", "I3@2", name="new", more=7)
    lab.merge()
    assert rows(lab) == [
        {"id": 1, "name": "new", "more": 7},
        {"id": 2, "name": "old", "more": None},
        {"id": 3, "name": "new", "more": 7},
    ]
    mirror = lab.mirror.metadata
    assert len(mirror.snapshots) == before + 1
    head = mirror.current_snapshot()
    assert head is not None
    assert head.schema_id == mirror.current_schema_id
    assert_sound(lab)


def test_schema_change_without_rows_waits_for_rows(tmp_path: Path) -> None:
    lab = make(tmp_path)
    location = lab.mirror.metadata_location
    change_columns(lab, lambda to: to.add_column("more", LongType()))
    assert lab.merge().outcome == "up-to-date"
    assert lab.mirror.metadata_location == location


def test_renamed_column_keeps_its_values(tmp_path: Path) -> None:
    lab = make(tmp_path)
    change_columns(lab, lambda to: to.rename_column("name", "title"))
    commit_events(lab, "U1@2", title="new")
    lab.merge()
    assert rows(lab) == [{"id": 1, "title": "new"}, {"id": 2, "title": "old"}]
    assert_sound(lab)


def test_swapped_names_do_not_swap_values(tmp_path: Path) -> None:
    schema = changelog_schema(("id", LongType()), ("a", StringType()), ("b", StringType()))
    lab = Lab.make(tmp_path, schema)
    commit_events(lab, "I1@1", "I2@1", a="a", b="b")
    lab.merge()
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        change_columns(lab, lambda to, old=old, new=new: to.rename_column(old, new))  # type: ignore[misc]
    commit_events(lab, "U1@2", a="b", b="a")
    lab.merge()
    assert rows(lab) == [{"id": 1, "a": "b", "b": "a"}, {"id": 2, "a": "b", "b": "a"}]
    assert_sound(lab)


def test_dropped_column_is_kept_and_null_in_new_rows(tmp_path: Path) -> None:
    lab = make(tmp_path)
    change_columns(lab, lambda to: to.delete_column("name"))
    commit_events(lab, "U1@2", "I3@2")
    lab.merge()
    assert rows(lab) == [{"id": 1, "name": None}, {"id": 2, "name": "old"}, {"id": 3, "name": None}]
    assert_sound(lab)
    commit_events(lab, "I4@3")
    lab.merge()
    assert len(lab.mirror.metadata.schemas) == 1, "the column was optional: nothing had to change"


def test_new_column_with_the_name_of_a_dropped_one_does_not_get_its_values(tmp_path: Path) -> None:
    lab = make(tmp_path)
    change_columns(lab, lambda to: to.delete_column("name"))
    change_columns(lab, lambda to: to.add_column("name", LongType()))
    commit_events(lab, "U1@2", name=5)
    lab.merge()
    assert rows(lab) == [
        {"id": 1, "name": 5, "name_dropped_2": None},
        {"id": 2, "name": None, "name_dropped_2": "old"},
    ]
    assert_sound(lab)


def test_dropped_column_is_removed_if_configured(tmp_path: Path) -> None:
    lab = make(tmp_path, "on_dropped_column: drop")
    change_columns(lab, lambda to: to.delete_column("name"))
    commit_events(lab, "U1@2")
    lab.merge()
    assert rows(lab) == [{"id": 1}, {"id": 2}]
    change_columns(lab, lambda to: to.add_column("name", StringType()))
    commit_events(lab, "I3@3", name="new")
    lab.merge()
    assert [row["name"] for row in rows(lab)] == [None, None, "new"]
    assert_sound(lab)


def test_dropped_partition_column_stays(tmp_path: Path) -> None:
    lab = make(tmp_path, 'on_dropped_column: drop\npartition_by: ["name"]')
    change_columns(lab, lambda to: to.delete_column("name"))
    commit_events(lab, "U1@2")
    lab.merge()
    assert rows(lab) == [{"id": 1, "name": None}, {"id": 2, "name": "old"}]
    assert_sound(lab)


def test_other_writers_may_drop_a_column_that_the_changelog_dropped(tmp_path: Path) -> None:
    lab = make(tmp_path)
    change_columns(lab, lambda to: to.delete_column("name"))
    commit_events(lab, "U1@2")
    lab.merge()
    with lab.mirror.update_schema() as update:
        update.delete_column("name")
    commit_events(lab, "U2@3")
    lab.merge()
    assert rows(lab) == [{"id": 1}, {"id": 2}]
    assert_sound(lab)


WIDE = changelog_schema(
    ("id", IntegerType()), ("n", IntegerType()), ("f", FloatType()), ("d", DecimalType(9, 2))
)


@V2_AND_V3
@pytest.mark.parametrize(
    "partition", ["", 'partition_by: ["n"]', 'partition_by: ["d"]', 'partition_by: ["bucket[4](n)"]']
)
def test_promoted_column_holds_larger_values(tmp_path: Path, version: int, partition: str) -> None:
    lab = Lab.make(tmp_path, WIDE, options=f"format_version: {version}\n{partition}")
    small = {"n": 2**31 - 1, "f": 1.5, "d": Decimal("1234567.89")}
    commit_events(lab, "I1@1", "I2@1", **small)
    lab.merge()
    change_columns(
        lab,
        lambda to: to.update_column("id", LongType()),
        lambda to: to.update_column("n", LongType()),
        lambda to: to.update_column("f", DoubleType()),
        lambda to: to.update_column("d", DecimalType(20, 2)),
    )
    large = {"n": 2**40, "f": 1e300, "d": Decimal("123456789012345678.90")}
    commit_events(lab, "U1@2", "I3@2", f"I{2**40}@2", **large)
    lab.merge()
    assert rows(lab) == [
        {"id": 1, **large},
        {"id": 2**40, **large},
        {"id": 2, **small},
        {"id": 3, **large},
    ]
    assert [str(field.field_type) for field in lab.mirror.schema().fields] == [
        "long",
        "long",
        "double",
        "decimal(20, 2)",
    ]
    assert_sound(lab)
    commit_events(lab, "D2@3", f"U{2**40}@3", **small)
    lab.merge()
    assert rows(lab)[1] == {"id": 2**40, **small}
    assert_sound(lab)


def test_new_files_use_the_promoted_type(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, WIDE, options="compact: false")
    commit_events(lab, "I1@1", n=1)
    lab.merge()
    change_columns(lab, lambda to: to.update_column("n", LongType()))
    commit_events(lab, "I2@2", n=2)
    lab.merge()
    kinds = {
        str(pq.read_schema(local_path(path)).field("n").type)
        for path in live_files(lab.mirror.io, lab.mirror.current_snapshot())
    }
    assert kinds == {"int32", "int64"}


def test_column_that_became_optional_is_optional_in_the_mirror(tmp_path: Path) -> None:
    fields = list(changelog_schema(("id", LongType()), ("name", StringType())).fields)
    fields[1] = NestedField(2, "name", StringType(), required=True)
    lab = make(tmp_path, schema=Schema(*fields, identifier_field_ids=[1]))
    assert lab.mirror.schema().find_field("name").required
    change_columns(lab, lambda to: to.make_column_optional("name"))
    commit_events(lab, "U1@2")
    lab.merge()
    assert rows(lab) == [{"id": 1, "name": None}, {"id": 2, "name": "old"}]
    assert_sound(lab)


def test_mirror_follows_the_column_order(tmp_path: Path) -> None:
    lab = make(tmp_path)
    change_columns(lab, lambda to: to.move_first("name"))
    commit_events(lab, "U1@2", name="new")
    lab.merge()
    assert lab.mirror.schema().column_names == ["name", "id"]
    assert_sound(lab)


def test_comments_follow_the_changelog_unless_another_writer_changed_them(tmp_path: Path) -> None:
    lab = make(tmp_path, "schema_policy: strict")
    change_columns(lab, lambda to: to.update_column("name", doc="as in the passport"))
    with lab.changelog.transaction() as transaction:
        transaction.set_properties({"comment": "people"})
    commit_events(lab, "U1@2", name="new")
    lab.merge()
    assert lab.mirror.schema().find_field("name").doc == "as in the passport"
    assert lab.mirror.metadata.properties["comment"] == "people"
    with lab.mirror.update_schema() as update:
        update.update_column("name", doc="by hand")
    with lab.mirror.transaction() as transaction:
        transaction.set_properties({"comment": "all people"})
    commit_events(lab, "U1@3", name="new")
    lab.merge()
    assert lab.mirror.schema().find_field("name").doc == "by hand"
    assert lab.mirror.metadata.properties["comment"] == "all people"


def test_default_applies_to_earlier_rows(tmp_path: Path) -> None:
    lab = make(tmp_path, "format_version: 3")
    change_columns(lab, lambda to: to.add_column("n", LongType(), default_value=7))
    commit_events(lab, "U1@2", n=1)
    lab.merge()
    assert rows(lab)[0]["n"] == 1
    assert lab.mirror.schema().find_field("n").initial_default == 7
    assert rows(lab)[1]["n"] == 7
    assert_sound(lab)
    report = explain_key(lab.pipeline, lab.table, "2")
    assert report.equal


ADDRESS = changelog_schema(
    ("id", LongType()),
    (
        "address",
        StructType(
            NestedField(50, "zip", IntegerType()),
            NestedField(51, "city", StringType()),
        ),
    ),
    ("tags", ListType(52, StructType(NestedField(53, "t", StringType())))),
)


@V2_AND_V3
def test_nested_fields_of_structs_and_lists_evolve(tmp_path: Path, version: int) -> None:
    lab = Lab.make(tmp_path, ADDRESS, options=f"format_version: {version}")
    commit_events(lab, "I1@1", "I2@1", address={"zip": 1, "city": "A"}, tags=[{"t": "x"}])
    lab.merge()
    change_columns(
        lab,
        lambda to: to.update_column(("address", "zip"), LongType()),
        lambda to: to.rename_column(("address", "city"), "town"),
        lambda to: to.add_column(("address", "street"), StringType()),
        lambda to: to.add_column(("tags", "element", "n"), LongType()),
    )
    commit_events(lab, "U1@2", address={"zip": 2**40, "town": "B", "street": "S"}, tags=[{"t": "y", "n": 1}])
    lab.merge()
    change_columns(lab, lambda to: to.delete_column(("address", "town")))
    commit_events(lab, "I3@3", address={"zip": 3, "street": "T"}, tags=[])
    lab.merge()
    assert [{**row, "address": dict(row["address"])} for row in rows(lab)] == [
        {
            "id": 1,
            "address": {"zip": 2**40, "street": "S", "town": "B"},
            "tags": [{"t": "y", "n": 1}],
        },
        {"id": 2, "address": {"zip": 1, "street": None, "town": "A"}, "tags": [{"t": "x", "n": None}]},
        {"id": 3, "address": {"zip": 3, "street": "T", "town": None}, "tags": []},
    ]
    assert_sound(lab)
