"""Replays: a merged range is merged again, and no row is reverted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from icemirror.errors import Invalid
from icemirror.protocol.replay import Replay
from spark_job.engine.engine import InProcessEngine
from spark_job.iceberg.property_names import PROPERTY_REPLAY
from spark_job.index import tiers
from spark_job.rebuild.replay import plan_replay, replay_step
from tests.lab import foreign
from tests.lab.lab import Lab
from tests.lab.replays import replay, since, skip_files


def test_replay_of_a_correct_mirror_commits_nothing(lab: Lab) -> None:
    first = lab.commit_events("I1@1 I2@1 I3@1")
    lab.commit_events("U1@2=b D2@2")
    lab.merge()
    before = lab.mirror.metadata_location
    (step,) = replay(lab, since(first))
    assert (step.progress.events, step.progress.of_events, step.progress.changed_rows) == (5, 5, 0)
    assert lab.mirror.metadata_location == before


def test_replay_merges_skipped_events_and_keeps_the_cursor(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with skip_files(monkeypatch, 1):
        first = lab.commit_events("I1@1 I2@1 I5@1", "U1@2=missed I4@2=missed D5@3")
        lab.merge()
    lab.commit_events("U2@5=new")
    lab.merge()
    cursor = lab.merge().cursor
    steps = replay(lab, since(first))
    assert lab.rows() == {1: "missed", 2: "new", 4: "missed"}
    assert steps[-1].progress.changed_rows == 3
    assert lab.merge().cursor == cursor
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert head.summary[PROPERTY_REPLAY] == "r1"


@pytest.mark.parametrize("shards", [1, 3])
def test_replay_does_not_revert_foreign_deletes(tmp_path: Path, shards: int) -> None:
    lab = Lab.make(tmp_path, engine=InProcessEngine(shards))
    first = lab.commit_events("I1@1 I2@1 I3@1")
    lab.merge()
    foreign.delete_rows(lab.mirror, [2])
    replay(lab, since(first))
    assert lab.rows() == {1: "I1@1", 3: "I3@1"}


def test_replay_of_a_range_does_not_restore_a_row_deleted_after_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index lacks key 1: merges skipped both its insert and its delete. Only the insert is replayed."""
    with skip_files(monkeypatch, 1):
        first = lab.commit_events("I9@1", "I1@2=gone I2@2=stays")
        lab.merge()
        lab.commit_events("I8@3", "D1@4")
        lab.merge()
    replay(lab, since(first, to=first))
    assert lab.rows() == {9: "I9@1", 8: "I8@3", 2: "stays"}


def test_replay_slices_apply_only_the_last_event_of_each_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one event per slice no snapshot shows superseded values; for equal sequences the later file wins."""
    lab = Lab.make(tmp_path)
    with skip_files(monkeypatch, 1, 2, 3):
        first = lab.commit_events("I9@1", "I1@2=old I3@7=first", "I2@2=old I3@7=second", "D1@5 U2@4=new")
        lab.merge()
    lab = lab.reconfigure(extra_config="batch_size: 1\n")
    steps = replay(lab, since(first))
    assert len(steps) == 4
    row_history = [
        dict(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True))
        for snapshot in lab.mirror.snapshots()
        if (rows := lab.mirror.scan(snapshot_id=snapshot.snapshot_id).to_arrow()) is not None
    ]
    assert row_history == [
        {9: "I9@1"},
        {9: "I9@1", 3: "second"},
        {9: "I9@1", 3: "second", 2: "new"},
    ]


def test_replay_resumes_and_restarts_after_a_mirror_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path, extra_config="batch_size: 1\n")
    with skip_files(monkeypatch, 0):
        first = lab.commit_events("I1@1")
        lab.commit_events("I2@1")
        lab.merge()
    lab.commit_events("I3@1")
    lab.merge()
    start = lab.mirror.metadata.current_snapshot_id
    assert start is not None
    step = replay_step(lab.pipeline, lab.table, since(first))
    assert (step.done, step.progress.events, lab.rows()) == (False, 1, {1: "I1@1", 3: "I3@1"})
    resumed = replace(since(first), progress=step.progress)
    assert replay_step(lab.pipeline, lab.table, resumed).progress.events == 2
    lab.mirror.manage_snapshots().rollback_to_snapshot(start).commit()
    assert lab.rows() == {3: "I3@1"}
    assert replay_step(lab.pipeline, lab.table, resumed).progress.events == 1
    assert lab.rows() == {1: "I1@1", 3: "I3@1"}


def test_replay_does_not_restore_a_row_whose_tombstone_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "FAN_IN", 2)
    lab = Lab.make(tmp_path, options="tombstone_retention: 0s")
    first = lab.commit_events("I1@10 I2@20")
    lab.merge()
    last = lab.commit_events("D1@40")
    lab.merge()
    for number in range(4):
        lab.commit_events(f"U2@{100 + number}")
        lab.merge()
    before = lab.mirror.metadata_location
    replay(lab, since(first, to=first))
    replay(lab, since(first, to=last))
    assert lab.rows() == {2: "U2@103"}
    assert lab.mirror.metadata_location == before


def test_replay_skips_unmerged_events(lab: Lab) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    later = lab.commit_events("I2@2")
    (step,) = replay(lab, since(later))
    assert (step.done, step.progress.events) == (True, 0)
    assert lab.rows() == {1: "I1@1"}


def test_replay_without_a_mirror_does_nothing(lab: Lab) -> None:
    first = lab.commit_events("I1@1")
    (step,) = replay(lab, since(first))
    assert step.done
    assert not lab.catalog.table_exists("lab.world")


def test_unknown_times_and_snapshots_are_refused(lab: Lab) -> None:
    with pytest.raises(Invalid, match="has no snapshot, so there is nothing"):
        plan_replay(lab.pipeline, lab.table, since(7))
    first, second = lab.commit_events("I1@1"), lab.commit_events("I2@2")
    lab.merge()
    with pytest.raises(Invalid, match="has no snapshot 7 in its history"):
        plan_replay(lab.pipeline, lab.table, since(7))
    with pytest.raises(Invalid, match="is older than"):
        plan_replay(lab.pipeline, lab.table, since(second, to=first))
    with pytest.raises(Invalid, match="nothing was committed since"):
        plan_replay(lab.pipeline, lab.table, Replay("r", 0.0, since_ms=4_000_000_000_000))
    whole = plan_replay(lab.pipeline, lab.table, Replay("r", 0.0, since_ms=0))
    assert (
        whole.from_snapshot,
        whole.to_snapshot,
        whole.snapshots,
        whole.files,
        whole.events,
        whole.slices,
    ) == (
        first,
        second,
        2,
        2,
        2,
        1,
    )


def test_expired_range_is_refused(lab: Lab) -> None:
    first, second = lab.commit_events("I1@1"), lab.commit_events("I2@2")
    third = lab.commit_events("I3@3")
    lab.merge()
    lab.changelog.refresh()
    with lab.changelog.maintenance.expire_snapshots() as expiry:
        expiry.by_ids([first, second])
    with pytest.raises(Invalid, match="has expired, was rolled back, or never existed"):
        replay_step(lab.pipeline, lab.table, since(second))
    with pytest.raises(Invalid, match="may have expired; the oldest snapshot is"):
        replay_step(lab.pipeline, lab.table, Replay("r", 0.0, since_ms=0))
    (step,) = replay(lab, since(third))
    assert step.progress.events == 1
