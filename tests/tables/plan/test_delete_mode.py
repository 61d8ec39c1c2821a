"""Mirrors that switch between hard and soft deletes, and the flag column."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import BooleanType, LongType, StringType

from icemirror.config_file.load import load_settings
from icemirror.errors import Invalid
from icemirror.protocol.replay import Replay
from spark_job.commands.adopt.adopt_table import adopt_table
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.plan.describe_plan import describe_plan
from spark_job.rebuild.replay import replay_step
from tests.lab.column_changes import assert_sound, change_columns, commit_events, rebuild
from tests.lab.lab import Lab, changelog_schema
from tests.lab.mirrored_world import write_config
from tests.lab.soft_deletes import FLAG, SOFT, flagged_rows, make


def test_switch_to_soft_flags_rows_deleted_afterwards(tmp_path: Path) -> None:
    hard = Lab.make(tmp_path)
    hard.commit_events("I1@1=a I2@1=a I3@1=a")
    hard.commit_events("D1@2=")
    hard.merge()
    lab = hard.reconfigure(SOFT)
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert report.equal, report.findings
    assert any("1 keys that the changelog deleted have no flagged row" in note for note in report.notes)
    lab.commit_events("D2@3=")
    lab.merge()
    assert flagged_rows(lab) == {2: ("a", True), 3: ("a", None)}
    assert_sound(lab)
    rebuild(lab)
    assert flagged_rows(lab) == {1: ("a", True), 2: ("a", True), 3: ("a", False)}
    assert not verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).notes


def test_switch_to_hard_requires_a_rebuild(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit_events("I1@1=a I2@1=a")
    lab.commit_events("D1@2=")
    lab.merge()
    hard = lab.reconfigure()
    hard.commit_events("U2@3=b")
    result = hard.try_merge()
    assert result.error is not None
    assert "icemirror replay --full" in result.error.message
    assert flagged_rows(lab) == {1: ("a", True), 2: ("a", False)}
    plan = describe_plan(hard.pipeline.planner.require_plan(hard.table))
    assert plan.refused is not None
    rebuild(hard)
    hard.merge()
    assert hard.rows() == {2: "b"}
    assert hard.mirror.schema().column_names == ["id", "name"]
    assert_sound(hard)


def test_rebuild_started_in_the_other_mode_restarts(tmp_path: Path) -> None:
    lab = make(tmp_path, extra_config="batch_size: 2\n")
    lab.commit_events("I1@1=a I2@1=a")
    lab.commit_events("D1@2=")
    lab.commit_events("I3@3=c D2@3=")
    lab.merge()

    def start_rebuild(configured: Lab, request: str) -> Any:
        progress = None
        for _ in range(2):
            replay = Replay(request, 0.0, full=True, progress=progress)
            progress = replay_step(configured.pipeline, configured.table, replay).progress
        return progress

    def finish_rebuild(configured: Lab, request: str, progress: Any) -> None:
        for _ in range(20):
            replay = Replay(request, 0.0, full=True, progress=progress)
            step = replay_step(configured.pipeline, configured.table, replay)
            progress = step.progress
            if step.done:
                return
        raise AssertionError

    hard = lab.reconfigure(extra_config="batch_size: 2\n")
    finish_rebuild(hard, "full-1", start_rebuild(lab, "full-1"))
    assert hard.rows() == {3: "c"}
    finish_rebuild(lab, "full-2", start_rebuild(hard, "full-2"))
    assert flagged_rows(lab) == {1: ("a", True), 2: ("a", True), 3: ("c", False)}


def test_changelog_column_with_the_name_of_the_flag_is_refused(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit_events("I1@1=a")
    lab.merge()
    change_columns(lab, lambda to: to.add_column(FLAG, BooleanType()))
    commit_events(lab, "U1@2", name="b")
    with pytest.raises(Invalid, match="Set deleted_column to another name"):
        lab.pipeline.advance(lab.table)
    lab = lab.reconfigure(f"{SOFT}\ndeleted_column: gone_at_source")
    lab.merge()
    commit_events(lab, "D1@3")
    lab.merge()
    (row,) = lab.mirror.scan().to_arrow().to_pylist()
    assert row == {"id": 1, "name": "b", FLAG: None, "gone_at_source": True}


def test_lower_case_names_may_collide_with_the_flag(tmp_path: Path) -> None:
    schema = changelog_schema(("id", LongType()), ("name", StringType()), ("_IS_DELETED", BooleanType()))
    lab = Lab.make(tmp_path, schema, options=f"{SOFT}\nname_case: lower")
    commit_events(lab, "I1@1", name="a")
    with pytest.raises(Invalid, match="Set deleted_column to another name"):
        lab.pipeline.advance(lab.table)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("deleted_column: _deleted", "_deleted is reserved by Iceberg"),
        (
            "deleted_column: at\nmetadata_columns: {synced_at: at}",
            "metadata_columns also has a column 'at'",
        ),
        ("append_only: true", "an append_only table has no deletes: remove delete_mode"),
    ],
)
def test_contradicting_settings_are_refused(tmp_path: Path, options: str, message: str) -> None:
    path = write_config(tmp_path, f"{SOFT}\n{options}")
    with pytest.raises(Exception, match=message):
        load_settings(path, os.environ)


@pytest.mark.parametrize("flagged", [True, False])
def test_adopted_table_has_or_gets_the_flag(tmp_path: Path, flagged: bool) -> None:
    lab = make(tmp_path)
    lab.commit_events("I1@1=a I2@1=b I3@1=c")
    lab.commit_events("D1@2=")
    table = {"id": [1, 2, 3], "name": ["a", "b", "c"], FLAG: [True, False, None]} if flagged else {
        "id": [2, 3], "name": ["b", "c"]
    }  # fmt: skip
    kinds = {"id": pa.int64(), "name": pa.string(), FLAG: pa.bool_()}
    schema = pa.schema([pa.field(name, kinds[name], nullable=name != "id") for name in table])
    lab.catalog.create_table("lab.world", schema).append(pa.table(table, schema=schema))
    adopt_table(lab.pipeline, lab.table, "head", dry_run=False)
    lab.commit_events("D2@3=")
    lab.merge()
    deleted = {1: ("a", True)} if flagged else {}
    assert flagged_rows(lab) == {**deleted, 2: ("b", True), 3: ("c", None)}
    assert_sound(lab)


def test_table_with_a_flag_of_another_type_is_not_adopted(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit_events("I1@1=a")
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), (FLAG, pa.string())]
    )
    lab.catalog.create_table("lab.world", schema)
    with pytest.raises(Invalid, match="not boolean"):
        adopt_table(lab.pipeline, lab.table, "none", dry_run=True)
