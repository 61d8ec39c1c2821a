"""What the tables themselves say of how far a mirror is behind."""

from __future__ import annotations

from pathlib import Path

from icemirror.result import Backlog, ErrorResult, MeasuredBacklog, Merged
from spark_job.worker.lag import LagMeter
from tests.lab.lab import Lab


def test_the_lag_counts_from_the_oldest_commit_that_is_not_merged(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")
    lab.merge()
    meter = LagMeter(lab.settings)
    current = meter.measure_backlog(lab.table)
    assert isinstance(current, MeasuredBacklog)
    assert (current.snapshots, current.events, current.since) == (0, 0, None)
    assert current.position is not None
    assert current.position.live_rows == 1
    first = lab.commit_events("I2@2 I3@3")
    lab.commit_events("I4@4")
    lab.changelog.refresh()
    made = lab.changelog.snapshot_by_id(first)
    assert made is not None
    behind = meter.measure_backlog(lab.table)
    assert isinstance(behind, MeasuredBacklog)
    assert (behind.snapshots, behind.events, behind.since) == (2, 3, made.timestamp_ms / 1000)


def test_every_slice_tells_what_its_plan_leaves(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, tail="batch_size: 3\n")
    lab.commit_events("I1@1 I2@1", "I3@1 I4@1")
    lab.commit_events("I5@1 I6@1", "I7@1", "I8@1 I9@1")
    lab.commit_events("I10@1")
    meter, lefts = LagMeter(lab.settings), list[Backlog]()
    while isinstance(step := lab.pipeline.advance(lab.table), Merged):
        assert step.left is not None
        lefts.append(step.left)
        asked = meter.measure_backlog(lab.table)
        assert isinstance(asked, MeasuredBacklog)
        assert (asked.snapshots, asked.events, asked.since) == (
            step.left.snapshots,
            step.left.events,
            step.left.since,
        )
    assert [(left.snapshots, left.events) for left in lefts] == [(3, 8), (2, 6), (2, 3), (0, 0)]
    assert [left.since is None for left in lefts] == [False, False, False, True]


def test_a_dropped_mirror_has_no_rows_and_is_behind_by_everything(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1 I2@2")
    lab.merge()
    lab.catalog.drop_table("lab.world")
    gone = LagMeter(lab.settings).measure_backlog(lab.table)
    assert isinstance(gone, MeasuredBacklog)
    assert (gone.events, gone.position and gone.position.live_rows) == (2, 0)


def test_a_table_that_cannot_be_merged_says_why(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path).reconfigure("primary_keys: [nothing]")
    refused = LagMeter(lab.settings).measure_backlog(lab.table)
    assert isinstance(refused, ErrorResult)
    assert "has no column nothing" in refused.message
