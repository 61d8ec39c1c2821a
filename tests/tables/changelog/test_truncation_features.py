"""Truncations in `explain-key`, `adopt`, replays and metadata columns."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from icemirror.errors import Invalid
from icemirror.protocol.replay import Replay
from spark_job.commands.adopt.adopt_table import adopt_table
from spark_job.rebuild.replay import replay_step
from tests.lab.explain import explain, fates, has_note, kinds
from tests.lab.lab import Lab
from tests.lab.truncations import VALUES, commit_events, filled, followed, is_verified, make, rebuild_now


def test_explain_distinguishes_events_before_a_truncation(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    commit_events(lab, "T@4 I1@5=n")
    lab.merge()
    truncated, present = explain(lab, {"id": 3}), explain(lab, {"id": 1})
    assert (truncated.state, fates(truncated), kinds(truncated)) == ("deleted", ["truncated"], [])
    assert "the source was truncated later" in truncated.events[0].words
    assert has_note(truncated, "was truncated after the last merged event of this key")
    assert (present.state, kinds(present)) == ("present", [])
    assert fates(present) == ["truncated", "truncated", "made-row"]


def test_explain_reports_unmerged_event_and_truncation(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    commit_events(lab, "U3@4=x T@5")
    report = explain(lab, {"id": 3})
    assert (report.state, fates(report), kinds(report)) == ("present", ["made-row", "truncated"], [])
    assert report.events[1].fate == "waiting"
    assert has_note(report, "a truncation of the source waits")


def test_explain_distinguishes_a_late_event_of_a_truncated_key(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    commit_events(lab, "T@4")
    lab.merge()
    commit_events(lab, "U3@3=late I3@6=n")
    lab.merge()
    report = explain(lab, {"id": 3})
    assert (report.state, fates(report)) == ("present", ["truncated", "truncated", "made-row"])


def insert_times(lab: Lab) -> dict[int, datetime]:
    """Return the insert time of each key."""
    return {row["id"]: row["created"] for row in lab.mirror.scan().to_arrow().to_pylist()}


def test_key_inserted_again_after_a_truncation_is_new(tmp_path: Path) -> None:
    lab = make(tmp_path, "metadata_columns: {created_at: created}")
    commit_events(lab, "I1@1 I2@1 I3@6")
    lab.merge()
    before = insert_times(lab)
    commit_events(lab, "T@4 I1@5=n")
    lab.merge()
    after = insert_times(lab)
    assert after.keys() == {1, 3}
    assert after[3] == before[3]
    assert after[1] > before[1]
    rebuild_now(lab)
    assert insert_times(lab) == after


def test_rebuild_keeps_insert_times_of_keys_with_the_sequence_of_a_truncation(tmp_path: Path) -> None:
    lab = make(tmp_path, "metadata_columns: {created_at: created}", batch=100)
    commit_events(lab, "I1@1 I2@1")
    lab.merge()
    commit_events(lab, "T@4 I1@4=n I2@5=n")  # one transaction, one sequence
    lab.merge()
    before = insert_times(lab)
    rebuild_now(lab)
    assert insert_times(lab) == before


def test_adopted_table_follows_truncations_up_to_its_cursor(tmp_path: Path) -> None:
    lab = make(tmp_path, batch=100)
    commit_events(lab, "I1@1 I2@1")
    commit_events(lab, "T@4 I2@5=n")
    table = lab.catalog.create_table("lab.world", lab.changelog.schema().select("id", "name"))
    rows = lab.changelog.scan(row_filter="name = 'n'").to_arrow().select(["id", "name"])
    table.append(rows.cast(table.schema().as_arrow()))
    adopt_table(lab.pipeline, lab.table, "head", dry_run=False)
    assert followed(lab) is not None
    commit_events(lab, "I1@3=late I4@6=n")
    lab.merge()
    assert lab.rows() == {2: "n", 4: "n"}
    assert is_verified(lab)


def test_truncation_removes_rows_of_a_newly_adopted_table(tmp_path: Path) -> None:
    lab = make(tmp_path, batch=100)
    table = lab.catalog.create_table("lab.world", lab.changelog.schema().select("id", "name"))
    commit_events(lab, "I1@1 I2@1")
    rows = lab.changelog.scan(row_filter="id = 1").to_arrow().select(["id", "name"])
    table.append(rows.cast(table.schema().as_arrow()))
    adopt_table(lab.pipeline, lab.table, "none", dry_run=False)
    commit_events(lab, "T@4 I2@5=n")
    lab.merge()
    assert lab.rows() == {2: "n"}
    assert is_verified(lab)


def test_replay_reports_an_ignored_truncation_correctly(tmp_path: Path) -> None:
    ignoring = VALUES.replace("truncate", "ignore")
    lab = filled(tmp_path).reconfigure(ignoring, "batch_size: 3\n")
    snapshot_id = commit_events(lab, "I8@3 T@4 I9@5")
    lab.merge()
    following = lab.reconfigure(VALUES, "batch_size: 3\n")
    replay = Replay(id="some", from_snapshot=snapshot_id, requested_at=0.0)
    with pytest.raises(Invalid, match="replay --full") as raised:
        replay_step(following.pipeline, following.table, replay)
    assert following.merge().outcome == "up-to-date", "the cursor is past it: no merge will follow it"
    assert "when a merge reaches it" in str(raised.value)
    assert "the next merge" not in str(raised.value)
