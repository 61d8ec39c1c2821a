"""Metadata columns: insert time, write time and sequence of each row."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import BooleanType, IcebergType, LongType, StringType, TimestamptzType

from icemirror.errors import Invalid
from spark_job.commands.explain.explain_key import explain_key
from spark_job.iceberg.mirror import read_mirror
from tests.lab import recreated_changelog
from tests.lab.column_changes import assert_sound, change_columns, commit_events, rebuild, rows
from tests.lab.lab import Lab, changelog_schema, local_path, sequence_text

ALL = "metadata_columns: {synced_at: synced, source_sequence: seq, created_at: created}"
V2_AND_V3 = pytest.mark.parametrize("version", [2, 3])


def make(folder: Path, options: str = ALL) -> Lab:
    lab = Lab.make(folder, options=options, extra_config="batch_size: 3\n")
    commit_events(lab, "I1@1", "I2@1", name="old")
    lab.merge()
    return lab


def by_key(lab: Lab) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in rows(lab)}


@V2_AND_V3
def test_metadata_columns_hold_insert_time_write_time_and_sequence(tmp_path: Path, version: int) -> None:
    before = datetime.now(UTC)
    lab = make(tmp_path, f"{ALL}\nformat_version: {version}")
    first = by_key(lab)
    assert lab.mirror.schema().column_names == ["id", "name", "synced", "seq", "created"]
    assert before <= first[1]["synced"] == first[1]["created"] <= datetime.now(UTC)
    assert first[1]["seq"] == sequence_text(1)
    commit_events(lab, "U1@2", "I3@2", name="new")
    lab.merge()
    second = by_key(lab)
    assert second[2] == first[2]
    assert second[1]["created"] == first[1]["created"] < second[1]["synced"] == second[3]["created"]
    assert second[1]["seq"] == sequence_text(2)
    commit_events(lab, "D1@3")
    lab.merge()
    commit_events(lab, "I1@4", name="again")
    lab.merge()
    assert by_key(lab)[1]["created"] > second[1]["synced"]
    assert_sound(lab)
    assert explain_key(lab.pipeline, lab.table, "1").equal


def test_metadata_columns_are_added_renamed_and_removed_with_the_setting(tmp_path: Path) -> None:
    lab = make(tmp_path, "")
    with_created = lab.reconfigure("metadata_columns: {created_at: created}")
    commit_events(lab, "U1@2", "I3@2", name="new")
    with_created.merge()
    added = by_key(lab)
    assert added[1]["created"] is None, "its insert time is unknown"
    assert added[3]["created"] is not None
    renamed = lab.reconfigure("metadata_columns: {created_at: came_in, synced_at: s}")
    commit_events(lab, "U3@3", name="newer")
    renamed.merge()
    assert lab.mirror.schema().column_names == ["id", "name", "s", "came_in"]
    assert by_key(lab)[3]["came_in"] == added[3]["created"]
    without = lab.reconfigure()
    commit_events(lab, "U3@4", name="newest")
    without.merge()
    assert lab.mirror.schema().column_names == ["id", "name"]
    assert_sound(without)


def test_metadata_columns_stay_last_and_keep_their_values_after_schema_changes(tmp_path: Path) -> None:
    lab = make(tmp_path)
    first = by_key(lab)
    change_columns(
        lab, lambda to: to.add_column("more", LongType()), lambda to: to.rename_column("name", "title")
    )
    commit_events(lab, "U1@2", title="new", more=1)
    lab.merge()
    assert lab.mirror.schema().column_names == ["id", "title", "more", "synced", "seq", "created"]
    assert by_key(lab)[1]["created"] == first[1]["created"]
    for number in range(3, 14):
        commit_events(lab, f"U2@{number}", f"I{number}@{number}", title="t")
        lab.merge()
    expected = by_key(lab)
    lab.pipeline.compact(lab.pipeline.planner.require_plan(lab.table))
    assert by_key(lab) == expected
    rebuild(lab)
    assert_sound(lab)
    rebuilt = [{name: row[name] for name in ("id", "title", "more", "seq")} for row in rows(lab)]
    assert rebuilt == [
        {name: row[name] for name in ("id", "title", "more", "seq")} for row in expected.values()
    ]


def test_changelog_column_with_the_name_of_a_metadata_column_is_refused(tmp_path: Path) -> None:
    lab = make(tmp_path)
    change_columns(lab, lambda to: to.add_column("synced", StringType()))
    commit_events(lab, "U1@2", name="x")
    with pytest.raises(Invalid, match=r"Set metadata_columns\.synced_at to another name"):
        lab.pipeline.advance(lab.table)
    (tmp_path / "other").mkdir()
    other = Lab.make(
        tmp_path / "other", changelog_schema(("id", LongType()), ("seq", LongType())), options=ALL
    )
    commit_events(other, "I1@1", seq=1)
    with pytest.raises(Invalid, match=r"Set metadata_columns\.source_sequence to another name"):
        other.pipeline.advance(other.table)


@pytest.mark.parametrize("batch", [2, 100])
def test_rebuild_keeps_insert_times(tmp_path: Path, batch: int) -> None:
    lab = Lab.make(tmp_path, options=ALL, extra_config=f"batch_size: {batch}\n")
    commit_events(lab, "I1@1", "I2@1", name="old")
    lab.merge()
    commit_events(lab, "D1@2", "U2@2", "I3@2", name="new")
    lab.merge()
    commit_events(lab, "I1@3", name="again")
    lab.merge()
    before = by_key(lab)
    rebuild(lab)
    after = by_key(lab)
    assert {key: row["created"] for key, row in after.items()} == {
        key: row["created"] for key, row in before.items()
    }
    assert all(after[key]["synced"] > row["synced"] for key, row in before.items())
    assert_sound(lab)


def test_rebuild_of_an_unreadable_index_sets_new_insert_times(tmp_path: Path) -> None:
    lab = make(tmp_path)
    before = by_key(lab)
    root = read_mirror(lab.mirror, lab.table.name).root
    assert root is not None
    for segment in root.segments:
        local_path(segment.path).unlink()
    rebuild(lab)
    assert all(row["created"] > before[key]["created"] for key, row in by_key(lab).items())
    assert_sound(lab)


def test_insert_times_stay_after_the_changelog_is_recreated(tmp_path: Path) -> None:
    lab = make(tmp_path)
    before = by_key(lab)
    lab = recreated_changelog.recreate_changelog(lab)
    commit_events(lab, "I1@1", "I9@1", name="anew")
    recreated_changelog.steps(lab)
    after = by_key(lab)
    assert after.keys() == {1, 9}
    assert after[1]["created"] == before[1]["created"] < after[9]["created"]
    assert_sound(lab)


@pytest.mark.parametrize(
    ("options", "name", "kind", "message"),
    [
        (ALL, "synced", TimestamptzType(), r"Set metadata_columns\.synced_at to another name"),
        (ALL, "seq", StringType(), r"Set metadata_columns\.source_sequence to another name"),
        (
            "delete_mode: soft",
            "_is_deleted",
            BooleanType(),
            "Set deleted_column to another name",
        ),
    ],
)
def test_recreated_changelog_with_the_name_of_a_metadata_column_is_refused(
    tmp_path: Path, options: str, name: str, kind: IcebergType, message: str
) -> None:
    lab = make(tmp_path, options)
    before = rows(lab)
    lab = recreated_changelog.recreate_changelog(lab, changelog_schema(("id", LongType()), (name, kind)))
    commit_events(lab, "I1@1")
    with pytest.raises(Invalid, match=message):
        recreated_changelog.steps(lab)
    assert rows(lab) == before
    reconfigured = lab.reconfigure(
        "metadata_columns: {synced_at: s, source_sequence: q}\ndeleted_column: gone"
    )
    recreated_changelog.steps(reconfigured)
    assert name in reconfigured.mirror.schema().column_names
    assert_sound(reconfigured)
