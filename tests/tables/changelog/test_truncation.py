"""Truncations of the source: events before one have no effect, in any order of merges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icemirror.protocol.replay import Replay
from icemirror.step_results import Rebuilt, Staged
from spark_job.columns import parquet_columns
from spark_job.iceberg.mirror import read_mirror
from spark_job.pipeline import Pipeline
from spark_job.plan.attempt_findings import AttemptFindings
from spark_job.plan.describe_plan import describe_plan
from spark_job.plan.divergence import Diverged
from spark_job.plan.plans import Merge, PlanOutcome, Repair
from spark_job.rebuild.replay import replay_step
from spark_job.rebuild.resync import plan_with_resync
from tests.lab.lab import Lab, write_file
from tests.lab.recreated_changelog import lose_history, recreate_changelog, steps
from tests.lab.samples import commit_snapshot, manifest_of
from tests.lab.truncations import (
    VALUES,
    commit_events,
    file_of,
    filled,
    followed,
    is_verified,
    make,
    rebuild_now,
)


def test_truncation_removes_rows_before_it_and_keeps_rows_after_it(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    commit_events(lab, "U3@3=c T@4 I1@5=n", "I7@6=n")
    lab.merge()
    assert lab.rows() == {1: "n", 7: "n"}
    assert is_verified(lab)


def test_truncation_without_later_events_leaves_an_empty_mirror(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    commit_events(lab, "T@4")
    lab.merge()
    assert lab.rows() == {}
    assert is_verified(lab)
    commit_events(lab, "I2@5=n U3@3=late")
    merged = lab.merge()
    assert lab.rows() == {2: "n"}
    assert [slice_.stale for slice_ in merged.slices] == [1]
    assert is_verified(lab)


def test_readers_see_the_table_before_or_after_a_truncation_never_between(tmp_path: Path) -> None:
    lab = filled(tmp_path, batch=2)
    commit_events(lab, "T@4 I1@5=n", "I2@5=n I3@5=n", "I4@5=n")
    seen = []
    steps(lab, lambda: seen.append(lab.rows()))
    old = {1: "b", 3: "I3@1", 4: "I4@2"}
    assert [rows for rows in seen if rows != old] == [dict.fromkeys((1, 2, 3, 4), "n")]
    assert len(seen) > 3


def test_rebuild_after_a_truncation_does_not_read_the_stopped_slice_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = filled(tmp_path, batch=2)
    commit_events(lab, "T@4 I1@5=n", "I2@5=n I3@5=n", "I4@5=n")
    merge_slice, attempts_on_stage = Pipeline.merge_slice, list[bool]()

    def record_attempt(
        self: Pipeline, plan: Merge | Repair, *arguments: Any
    ) -> PlanOutcome | AttemptFindings | Diverged:
        attempts_on_stage.append(plan.table_plan.is_stage)
        return merge_slice(self, plan, *arguments)

    monkeypatch.setattr(Pipeline, "merge_slice", record_attempt)
    steps(lab, lambda: None)
    assert lab.rows() == dict.fromkeys((1, 2, 3, 4), "n")
    assert attempts_on_stage.count(False) == 1
    assert attempts_on_stage.count(True) > 1


def test_late_truncation_keeps_newer_rows(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    commit_events(lab, "I8@9 U3@8=new")
    lab.merge()
    commit_events(lab, "T@4")
    lab.merge()
    assert lab.rows() == {3: "new", 8: "I8@9"}
    assert is_verified(lab)


def test_followed_truncation_is_skipped_later(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    commit_events(lab, "T@4 I1@5=n")
    lab.merge()
    commit_events(lab, "T@3 I2@6=n T@2")
    result = lab.merge()
    assert result.outcome == "merged"
    assert lab.rows() == {1: "n", 2: "n"}
    last = followed(lab)
    assert last is not None
    assert last.sequence[0] == 4


def test_duplicate_truncation_in_a_later_commit_needs_no_rebuild(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    commit_events(lab, "T@4 I1@5=n")
    lab.merge()
    commit_events(lab, "I2@6=n", "T@4 I1@5=n I3@6=n")
    assert lab.merge().outcome == "merged"
    assert lab.rows() == {1: "n", 2: "n", 3: "n"}
    assert is_verified(lab)


def test_equal_sequences_are_ordered_by_commit_file_and_row(tmp_path: Path) -> None:
    lab = filled(tmp_path, batch=100)
    commit_events(lab, "I1@7=a", "I2@7=b T@7 I3@7=n", "I4@7=n")
    commit_events(lab, "I5@7=n")
    lab.merge()
    assert lab.rows() == {3: "n", 4: "n", 5: "n"}
    assert is_verified(lab)
    commit_events(lab, "T@7 I6@7=m")
    lab.merge()
    assert lab.rows() == {6: "m"}
    assert is_verified(lab)


def test_files_are_scanned_for_truncations_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path, batch=100)
    commit_events(lab, "I1@1 I2@2 T@3 I3@4 I4@5 T@6 I5@7 I6@8", "I7@5 I8@9")
    monkeypatch.setattr(parquet_columns, "_BATCH_ROWS", 3)
    lab.merge()
    assert lab.rows() == {5: "I5@7", 6: "I6@8", 8: "I8@9"}
    last = followed(lab)
    assert last is not None
    assert (last.file, last.row) == (0, 5)


def test_many_truncations_cost_one_rebuild(tmp_path: Path) -> None:
    lab = filled(tmp_path, batch=2)
    for sequence in range(10, 16):
        commit_events(lab, f"T@{sequence} I1@{sequence}={sequence}")
    assert isinstance(steps(lab)[-1], Rebuilt)
    assert lab.rows() == {1: "15"}
    assert lab.merge().outcome == "up-to-date"


def test_first_merge_applies_only_events_after_the_last_truncation(tmp_path: Path) -> None:
    lab = make(tmp_path, batch=2)
    commit_events(lab, "I1@1 I2@1", "T@2 I3@3", "I4@2")
    commit_events(lab, "I5@4 T@5", "I6@6", "I7@1")
    result = lab.merge()
    assert result.outcome == "merged"
    assert len(result.slices) > 2
    assert lab.rows() == {6: "I6@6"}
    assert is_verified(lab)


def test_truncation_during_the_first_merge_is_followed_by_a_rebuild(tmp_path: Path) -> None:
    lab = make(tmp_path, batch=2)
    commit_events(lab, "I1@1 I2@1", "I3@3", "T@2 I4@3")
    lab.pipeline.advance(lab.table)
    commit_events(lab, "T@9 I9@9")
    result = lab.merge()
    assert lab.rows() == {9: "I9@9"}
    assert result.outcome == "rebuilt"


def test_another_truncation_during_the_rebuild_is_followed_after_it(tmp_path: Path) -> None:
    lab = filled(tmp_path, batch=2)
    commit_events(lab, "T@4 I1@5=n")
    first = lab.pipeline.advance(lab.table)
    assert isinstance(first, Staged)
    commit_events(lab, "T@6 I2@7=m")
    taken = []
    while lab.rows() != {2: "m"}:
        taken.append(lab.pipeline.advance(lab.table))
        assert len(taken) < 20
    assert [type(step) for step in taken].count(Rebuilt) == 2
    assert is_verified(lab)


def test_interrupted_rebuild_continues(tmp_path: Path) -> None:
    lab = filled(tmp_path, batch=2)
    commit_events(lab, "T@4 I1@5=n")
    first = lab.pipeline.advance(lab.table)
    assert isinstance(first, Staged)
    again = lab.reconfigure(VALUES, "batch_size: 2\n")
    second = again.pipeline.advance(again.table)
    assert isinstance(second, Staged)
    assert second.events > first.events
    again.merge()
    assert lab.rows() == {1: "n"}


def test_rebuild_applies_followed_truncations(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    commit_events(lab, "T@4 I1@5=n")
    lab.merge()
    rebuild_now(lab)
    assert lab.rows() == {1: "n"}
    assert followed(lab) is not None
    assert is_verified(lab)


def test_rebuild_follows_truncations_that_were_ignored(tmp_path: Path) -> None:
    ignoring = VALUES.replace("truncate", "ignore")
    lab = filled(tmp_path).reconfigure(ignoring, "batch_size: 3\n")
    commit_events(lab, "I8@3 T@4 I9@5")
    lab.merge()
    kept = lab.rows()
    assert len(kept) == 5
    following = lab.reconfigure(VALUES, "batch_size: 3\n")
    commit_events(lab, "I7@6")
    following.merge()
    assert lab.rows() == {**kept, 7: "I7@6"}
    assert is_verified(following)
    rebuild_now(following)
    assert lab.rows() == {7: "I7@6", 9: "I9@5"}
    assert is_verified(following)


def test_compacted_and_expired_changelog_gives_the_same_mirror(tmp_path: Path) -> None:
    lab = filled(tmp_path, batch=100)
    commit_events(lab, "I1@4=a I2@4=b")
    commit_events(lab, "I3@4=c T@4 I4@4=n I5@4=n")
    lab.merge()
    assert lab.rows() == {4: "n", 5: "n"}
    merged = "I1@1 I2@1 I3@1 U1@2=b D2@2 I4@2"
    compact_changelog(lab, f"{merged} I1@4=a I2@4=b I3@4=c T@4 I4@4=n I5@4=n")
    lab.merge()
    lose_history(lab)
    commit_events(lab, "I6@5=n")
    lab.merge()
    assert lab.rows() == {4: "n", 5: "n", 6: "n"}
    assert is_verified(lab)
    rebuild_now(lab)
    assert lab.rows() == {4: "n", 5: "n", 6: "n"}
    assert is_verified(lab)


def compact_changelog(lab: Lab, events: str) -> None:
    """Rewrite all events into one file, in order, by a replace snapshot."""
    file = write_file(lab.changelog.refresh(), file_of(events))
    commit_snapshot(lab.changelog, "replace", [manifest_of(lab.changelog, 4711, [file])], 4711)


def test_replay_does_not_restore_truncated_rows(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    commit_events(lab, "T@4 I1@5=n")
    lab.merge()
    first = lab.changelog.snapshots()[0].snapshot_id
    replay = Replay(id="some", from_snapshot=first, requested_at=0.0)
    for _ in range(30):
        step = replay_step(lab.pipeline, lab.table, replay)
        if step.done:
            break
        replay = replace(replay, progress=step.progress)
    assert lab.rows() == {1: "n"}


def test_recreated_changelog_may_contain_truncations(tmp_path: Path) -> None:
    lab = recreate_changelog(filled(tmp_path))
    commit_events(lab, "I1@1 T@2 I3@3=n")
    lab.merge()
    assert lab.rows() == {3: "n"}
    assert is_verified(lab)


def test_truncations_are_followed_after_an_expired_cursor(tmp_path: Path) -> None:
    lab = filled(tmp_path, "on_expired_cursor: rebuild")
    commit_events(lab, "I9@3")
    commit_events(lab, "T@4 I1@5=n")
    commit_events(lab, "I2@6=n")
    lose_history(lab)
    lab.merge()
    assert lab.rows() == {1: "n", 2: "n"}
    assert is_verified(lab)


def test_index_is_rebuilt_without_truncated_rows(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    commit_events(lab, "T@4 I1@5=n")
    lab.merge()
    root = read_mirror(lab.mirror, "lab.world").root_path
    assert root is not None
    Path(root.removeprefix("file://")).unlink()
    commit_events(lab, "I3@3=late I4@6=n")
    lab.merge()
    assert lab.rows() == {1: "n", 4: "n"}
    assert is_verified(lab)


def test_truncation_without_a_sequence_is_an_error(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    commit_events(lab, "I9@3 T@")
    error = lab.try_merge().error
    assert error is not None
    assert "sequence_number is NULL in row 1" in error.message


def test_only_a_truncation_without_a_sequence_is_a_bad_row(tmp_path: Path) -> None:
    lab = filled(tmp_path, "on_bad_row: quarantine\nreject_limit: 1", batch=100)
    commit_events(lab, "I8@9=n T@ I2@4 T@4 I5@4=n", "T@")
    lab.merge()
    assert lab.rows() == {5: "n", 8: "n"}
    rejects = lab.catalog.load_table("lab.world_rejects").scan().to_arrow()
    assert rejects["icemirror_reason"].to_pylist() == ["null-sequence", "null-sequence"]
    assert is_verified(lab)


def test_truncation_removes_soft_deleted_rows(tmp_path: Path) -> None:
    lab = filled_soft(tmp_path)
    commit_events(lab, "T@4 I1@5=n I7@5 D7@6")
    lab.merge()
    rows = lab.mirror.scan().to_arrow().select(["id", "_is_deleted"]).to_pylist()
    assert sorted((row["id"], row["_is_deleted"]) for row in rows) == [(1, False), (7, True)]
    assert is_verified(lab)


def filled_soft(folder: Path) -> Lab:
    lab = make(folder, "delete_mode: soft")
    commit_events(lab, "I1@1 I2@1 D2@2")
    lab.merge()
    return lab


def test_unchanged_value_is_not_taken_from_before_a_truncation(tmp_path: Path) -> None:
    lab = filled(tmp_path, 'unchanged_value: "~"\non_missing_value: set-null')
    commit_events(lab, "T@4 U1@5=~")
    lab.merge()
    assert lab.rows() == {1: None}
    commit_events(lab, "U3@6=~")
    lab.merge()
    assert lab.rows() == {1: None, 3: None}
    assert is_verified(lab)


def test_plan_reports_the_rebuild_for_a_truncation(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    commit_events(lab, "I9@3")
    assert not describe_plan(
        plan_with_resync(lab.pipeline.planner, lab.table, scan_truncations=True)
    ).rebuilds_mirror
    commit_events(lab, "T@4")
    plan = describe_plan(plan_with_resync(lab.pipeline.planner, lab.table, scan_truncations=True))
    assert plan.rebuilds_mirror
    assert plan.events == 8
    assert not plan_with_resync(lab.pipeline.planner, lab.table, scan_truncations=False).is_stage
    lab.merge()
    assert not describe_plan(
        plan_with_resync(lab.pipeline.planner, lab.table, scan_truncations=True)
    ).rebuilds_mirror


def test_other_sequence_columns_cannot_be_compared_with_a_truncation(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    commit_events(lab, "T@4")
    lab.merge()
    reconfigured = lab.reconfigure(
        f"{VALUES}\nsequence_column: [sequence_number, name]\nkeep_columns: [name]", "batch_size: 3\n"
    )
    commit_events(lab, "I9@5")
    error = reconfigured.try_merge().error
    assert error is not None
    assert "sequence_column changed" in error.message


def test_truncation_of_a_table_without_key_is_refused(tmp_path: Path) -> None:
    lab = make(tmp_path, "append_only: true")
    lab.commit(file_of("I1@1 T@2"))
    error = lab.try_merge().error
    assert error is not None
    assert "truncated ('TRUNCATE'), which an append_only table does not follow" in error.message


def test_cursor_without_truncation_has_the_old_format(tmp_path: Path) -> None:
    lab = filled(tmp_path)
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert "truncated" not in head.summary.additional_properties["icemirror.cursor"]
