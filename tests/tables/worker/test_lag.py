"""The lag of a mirror, measured from its tables."""

from __future__ import annotations

from pathlib import Path

from icemirror.result import ErrorResult
from icemirror.step_results import Backlog, MeasuredBacklog, Merged
from spark_job.commands.lag import LagMeter
from tests.lab.lab import Lab


def test_lag_counts_from_the_oldest_unmerged_commit(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")
    lab.merge()
    meter = LagMeter(lab.settings)
    current = meter.measure_backlog(lab.table)
    assert isinstance(current, MeasuredBacklog)
    assert (current.snapshots, current.events, current.since) == (0, 0, None)
    assert current.mirror_status is not None
    assert current.mirror_status.live_rows == 1
    first = lab.commit_events("I2@2 I3@3")
    lab.commit_events("I4@4")
    lab.changelog.refresh()
    snapshot = lab.changelog.snapshot_by_id(first)
    assert snapshot is not None
    backlog = meter.measure_backlog(lab.table)
    assert isinstance(backlog, MeasuredBacklog)
    assert (backlog.snapshots, backlog.events, backlog.since) == (2, 3, snapshot.timestamp_ms / 1000)


def test_every_slice_reports_the_remaining_backlog(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, extra_config="batch_size: 3\n")
    lab.commit_events("I1@1 I2@1", "I3@1 I4@1")
    lab.commit_events("I5@1 I6@1", "I7@1", "I8@1 I9@1")
    lab.commit_events("I10@1")
    meter, reported = LagMeter(lab.settings), list[Backlog]()
    while isinstance(step := lab.pipeline.advance(lab.table), Merged):
        assert step.backlog is not None
        reported.append(step.backlog)
        measured = meter.measure_backlog(lab.table)
        assert isinstance(measured, MeasuredBacklog)
        assert (measured.snapshots, measured.events, measured.since) == (
            step.backlog.snapshots,
            step.backlog.events,
            step.backlog.since,
        )
    assert [(backlog.snapshots, backlog.events) for backlog in reported] == [(3, 8), (2, 6), (2, 3), (0, 0)]
    assert [backlog.since is None for backlog in reported] == [False, False, False, True]


def test_backlog_of_a_dropped_mirror_is_the_whole_changelog(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1 I2@2")
    lab.merge()
    lab.catalog.drop_table("lab.world")
    backlog = LagMeter(lab.settings).measure_backlog(lab.table)
    assert isinstance(backlog, MeasuredBacklog)
    assert (backlog.events, backlog.mirror_status and backlog.mirror_status.live_rows) == (2, 0)


def test_backlog_of_a_blocked_table_is_its_error(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path).reconfigure("primary_keys: [nothing]")
    error = LagMeter(lab.settings).measure_backlog(lab.table)
    assert isinstance(error, ErrorResult)
    assert "has no column nothing" in error.message
