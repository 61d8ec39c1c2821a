"""Schema changes in backlogs, replays and rebuilds, with stale reads, other writers and policies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
)

from icemirror.errors import Invalid, Kind, Transient
from icemirror.protocol.replay import Replay
from spark_job.commands.explain.explain_key import explain_key
from spark_job.commit.row_delta import RowDelta
from spark_job.iceberg.merged_schema import read_merged_schema
from spark_job.iceberg.property_names import PROPERTY_FIELD_MAP, PROPERTY_SOURCE_SCHEMA
from spark_job.rebuild.replay import replay_step
from spark_job.storage.file_cache import clear_file_caches
from tests.lab.column_changes import assert_sound, change_columns, commit_events, rebuild, rows
from tests.lab.lab import ID_AND_NAME, Lab, changelog_schema

V2_AND_V3 = pytest.mark.parametrize("version", [2, 3])
WIDE = changelog_schema(
    ("id", IntegerType()), ("n", IntegerType()), ("f", FloatType()), ("d", DecimalType(9, 2))
)


def make(folder: Path, options: str = "", extra_config: str = "", schema: Schema = ID_AND_NAME) -> Lab:
    lab = Lab.make(folder, schema, options=options, extra_config=extra_config)
    commit_events(lab, "I1@1", "I2@1", name="old")
    lab.merge()
    return lab


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_backlog_across_schema_changes_is_correct_for_any_batch_size(tmp_path: Path, batch: int) -> None:
    lab = make(tmp_path, extra_config=f"batch_size: {batch}\n")
    commit_events(lab, "U1@2", "I3@2", name="three")
    change_columns(
        lab, lambda to: to.rename_column("name", "title"), lambda to: to.add_column("n", IntegerType())
    )
    commit_events(lab, "I4@3", title="four", n=4)
    change_columns(lab, lambda to: to.update_column("n", LongType()))
    commit_events(lab, "I5@4", title="five", n=2**40)
    change_columns(lab, lambda to: to.delete_column("title"))
    commit_events(lab, "U4@5", n=44)
    change_columns(lab, lambda to: to.add_column("name", LongType()))
    commit_events(lab, "I6@6", name=6, n=6)
    lab.merge()
    rows_with_dropped = [(row["id"], row["n"], row["name"], row["name_dropped_2"]) for row in rows(lab)]
    assert rows_with_dropped == [
        (1, None, None, "three"),
        (2, None, None, "old"),
        (3, None, None, "three"),
        (4, 44, None, None),
        (5, 2**40, None, "five"),
        (6, 6, 6, None),
    ]
    assert_sound(lab)


def test_column_promoted_then_dropped_keeps_its_values(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, WIDE)
    commit_events(lab, "I1@1", "I2@1", n=1)
    lab.merge()
    change_columns(lab, lambda to: to.update_column("n", LongType()))
    commit_events(lab, "U1@2", n=2**40)
    change_columns(lab, lambda to: to.delete_column("n"))
    commit_events(lab, "I3@3")
    lab.merge()
    assert [row["n"] for row in rows(lab)] == [2**40, 1, None]
    assert_sound(lab)


@V2_AND_V3
def test_mirror_with_older_files_is_compacted_replayed_and_rebuilt(tmp_path: Path, version: int) -> None:
    lab = make(tmp_path, f"format_version: {version}", extra_config="batch_size: 3\n")
    first = lab.changelog.metadata.snapshots[0].snapshot_id
    change_columns(
        lab, lambda to: to.rename_column("name", "title"), lambda to: to.add_column("n", IntegerType())
    )
    commit_events(lab, "I3@3", title="three", n=3)
    lab.merge()
    change_columns(lab, lambda to: to.update_column("n", LongType()), lambda to: to.move_first("n"))
    for key in range(4, 14):
        commit_events(lab, f"I{key}@{key}", "U3@4", title="t", n=2**40)
        lab.merge()
    expected = rows(lab)
    lab.pipeline.compact(lab.pipeline.planner.require_plan(lab.table))
    assert rows(lab) == expected
    assert_sound(lab)
    replay = Replay("r-1", 0.0, from_snapshot=first)
    step = replay_step(lab.pipeline, lab.table, replay)
    while not step.done:
        step = replay_step(
            lab.pipeline, lab.table, Replay("r-1", 0.0, from_snapshot=first, progress=step.progress)
        )
    assert rows(lab) == expected
    assert rebuild(lab)[-1].rebuilt
    assert rows(lab) == expected
    assert_sound(lab)
    for key_text in ("1", "3", "7"):
        assert explain_key(lab.pipeline, lab.table, key_text).equal


def test_rebuild_follows_unmerged_schema_changes(tmp_path: Path) -> None:
    lab = make(tmp_path, extra_config="batch_size: 1\n")
    change_columns(
        lab, lambda to: to.rename_column("name", "title"), lambda to: to.add_column("n", LongType())
    )
    commit_events(lab, "U1@2", "I3@2", title="new", n=1)
    rebuild(lab)
    assert rows(lab) == [{"id": 1, "title": "old", "n": None}, {"id": 2, "title": "old", "n": None}]
    assert_sound(lab)
    lab.merge()
    assert rows(lab) == [
        {"id": 1, "title": "new", "n": 1},
        {"id": 2, "title": "old", "n": None},
        {"id": 3, "title": "new", "n": 1},
    ]
    assert_sound(lab)
    commit_events(lab, "I4@3", title="later", n=4)
    lab.merge()
    assert rows(lab)[-1] == {"id": 4, "title": "later", "n": 4}
    assert_sound(lab)


def test_key_with_unmerged_events_after_a_schema_change_is_explained(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, WIDE)
    commit_events(lab, "I1@1", n=1)
    lab.merge()
    change_columns(lab, lambda to: to.update_column("n", LongType()), lambda to: to.rename_column("f", "g"))
    commit_events(lab, "U1@2", n=2**40, g=1.5)
    report = explain_key(lab.pipeline, lab.table, "1")
    assert report.equal
    assert [event.values and event.values["n"] for event in report.events] == [1, 2**40]
    lab.merge()
    assert explain_key(lab.pipeline, lab.table, "1").equal


def test_column_properties_follow_a_rename(tmp_path: Path) -> None:
    lab = make(tmp_path, "table_properties: {write.metadata.metrics.column.name: none}")
    change_columns(lab, lambda to: to.rename_column("name", "title"))
    commit_events(lab, "U1@2", title="new")
    lab.merge()
    assert lab.mirror.metadata.properties["write.metadata.metrics.column.title"] == "none"


def test_strict_blocks_until_the_setting_changes(tmp_path: Path) -> None:
    lab = make(tmp_path, "schema_policy: strict")
    change_columns(
        lab, lambda to: to.add_column("more", LongType()), lambda to: to.rename_column("name", "title")
    )
    commit_events(lab, "U1@2", title="new", more=1)
    error = lab.try_merge().error
    assert error is not None
    assert error.kind is Kind.INVALID
    assert "column name renamed to title; new column more (long)" in error.message
    assert "set schema_policy: permissive for lab.world" in error.message
    assert rows(lab)[0] == {"id": 1, "name": "old"}
    lab.reconfigure().merge()
    assert rows(lab)[0] == {"id": 1, "title": "new", "more": 1}
    commit_events(lab, "U1@3", title="newer")
    lab.merge()


def test_changed_type_of_the_key_is_refused(tmp_path: Path) -> None:
    lab = make(tmp_path)
    change_columns(lab, lambda to: to.update_column("id", StringType()))
    with pytest.raises(Invalid, match="type of its key"):
        lab.pipeline.advance(lab.table)


def test_column_with_the_name_of_a_partition_field_is_refused_before_any_write(tmp_path: Path) -> None:
    lab = make(tmp_path, 'partition_by: ["bucket[4](id)"]')
    files = lab.files_on_disk()
    change_columns(lab, lambda to: to.add_column("id_bucket", LongType()))
    commit_events(lab, "U1@2", name="x")
    with pytest.raises(Invalid, match="column id_bucket would have the name of a partition field"):
        lab.pipeline.advance(lab.table)
    assert lab.files_on_disk() == files


def test_columns_and_rows_are_committed_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer changes the columns just before the commit, which is refused as a whole and planned again."""
    lab = make(tmp_path)
    change_columns(lab, lambda to: to.add_column("more", LongType()))
    commit_events(lab, "U1@2", name="new", more=1)
    commit, calls = RowDelta.commit, list[int]()

    def commit_after_foreign_change(delta: RowDelta) -> object:
        if not calls:
            with lab.mirror.update_schema() as update:
                update.update_column("name", doc="by hand")
        calls.append(1)
        return commit(delta)

    monkeypatch.setattr(RowDelta, "commit", commit_after_foreign_change)
    lab.merge()
    assert len(calls) == 2
    assert rows(lab)[0] == {"id": 1, "name": "new", "more": 1}
    assert lab.mirror.schema().find_field("name").doc == "by hand"


def test_stale_changelog_does_not_revert_columns(tmp_path: Path) -> None:
    lab = make(tmp_path, extra_config="batch_size: 1\n")
    before = lab.changelog.refresh().metadata
    change_columns(lab, lambda to: to.rename_column("name", "title"))
    commit_events(lab, "U1@2", "U2@2", title="new")
    lab.merge()
    merged_schema = read_merged_schema(lab.mirror.metadata.properties)
    assert merged_schema is not None
    assert (merged_schema.changelog_schema, merged_schema.newest_schema) == (1, 1)
    stale = lab.changelog.refresh()
    stale.metadata = stale.metadata.model_copy(
        update={"schemas": before.schemas, "current_schema_id": before.current_schema_id}
    )
    table_plan = lab.pipeline.planner.require_plan(lab.table)
    with pytest.raises(Transient, match="a state before schema 1"):
        replace(table_plan, changelog=stale).require_allowed_schema_change()


def test_reverted_columns_reuse_the_earlier_schema(tmp_path: Path) -> None:
    lab = make(tmp_path)
    change_columns(lab, lambda to: to.rename_column("name", "title"))
    commit_events(lab, "U1@2", title="x")
    lab.merge()
    change_columns(lab, lambda to: to.rename_column("title", "name"))
    commit_events(lab, "U1@3", name="y")
    lab.merge()
    assert (lab.mirror.metadata.current_schema_id, len(lab.mirror.metadata.schemas)) == (0, 2)
    assert rows(lab) == [{"id": 1, "name": "y"}, {"id": 2, "name": "old"}]


def test_mirror_of_an_earlier_version_records_its_schema_with_the_next_commit(tmp_path: Path) -> None:
    lab = make(tmp_path)
    with lab.mirror.transaction() as transaction:
        transaction.remove_properties(PROPERTY_SOURCE_SCHEMA)
    clear_file_caches()
    commit_events(lab, "U1@2", name="x")
    lab.merge()
    assert read_merged_schema(lab.mirror.metadata.properties) is not None
    location = lab.mirror.metadata.properties[PROPERTY_FIELD_MAP]
    commit_events(lab, "U1@3", name="y")
    lab.merge()
    assert lab.mirror.metadata.properties[PROPERTY_FIELD_MAP] == location


def test_recreated_changelog_is_matched_by_column_names(tmp_path: Path) -> None:
    """Field ids differ after recreation; columns are matched by name."""
    schema = changelog_schema(("id", LongType()), ("gone", LongType()), ("name", StringType()))
    lab = Lab.make(tmp_path, schema)
    commit_events(lab, "I1@1", name="old", gone=5)
    lab.merge()
    lab.catalog.drop_table("lab.world_changelog")
    recreated = changelog_schema(("name", StringType()), ("more", LongType()), ("id", LongType()))
    lab.changelog = lab.catalog.create_table("lab.world_changelog", recreated)
    commit_events(lab, "I1@1", "I2@1", name="new", more=1)
    assert lab.try_merge().outcome == "rebuilt"
    assert [(row["id"], row["name"], row["more"], row["gone"]) for row in rows(lab)] == [
        (1, "new", 1, None),
        (2, "new", 1, None),
    ]
    assert_sound(lab)
    commit_events(lab, "I3@2", name="later", more=3)
    lab.merge()
    assert rows(lab)[-1]["name"] == "later"
    assert_sound(lab)
