"""Rebuilds of a mirror that is unreadable or cannot be merged: which stages may be swapped in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from pyiceberg.table import Table

from icemirror.errors import CommitUnknown, Corrupt, IcemirrorError, Invalid, Transient
from icemirror.protocol.replay import Replay, ReplayStep
from spark_job.commit.row_delta import RowDelta
from spark_job.commit.swap_snapshot import Swap
from spark_job.iceberg.mirror import Mirror, read_mirror
from spark_job.rebuild import rebuild, stage_progress
from spark_job.rebuild.replay import replay_step
from tests.lab.lab import Lab

FULL = Replay("full-1", 0.0, full=True)
Fail = Callable[[Lab, pytest.MonkeyPatch, IcemirrorError], None]


def make(folder: Path) -> tuple[Lab, ReplayStep]:
    """Return a lab with a mirror, and the rebuild step after which the stage has merged the whole changelog."""
    lab = Lab.make(folder)
    lab.commit_events("I1@1 I2@1")
    lab.merge()
    return lab, replay_step(lab.pipeline, lab.table, FULL)


def next_step(lab: Lab, before: ReplayStep) -> ReplayStep:
    return replay_step(lab.pipeline, lab.table, replace(FULL, progress=before.progress))


def fail_to_read_mirror(lab: Lab, patch: pytest.MonkeyPatch, error: IcemirrorError) -> None:
    mirror = lab.mirror.metadata_location

    def read(table: Table, name: str) -> Mirror:
        if table.metadata_location == mirror:
            raise error
        return read_mirror(table, name)

    patch.setattr(rebuild, "read_mirror", read)


def fail_to_plan_slices(lab: Lab, patch: pytest.MonkeyPatch, error: IcemirrorError) -> None:
    def plan(*_: object) -> NoReturn:
        raise error

    patch.setattr(stage_progress, "plan_unmerged_slices", plan)


@pytest.mark.parametrize("fail", [fail_to_read_mirror, fail_to_plan_slices])
def test_transient_error_does_not_swap_in_an_overtaken_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: Fail
) -> None:
    lab, first = make(tmp_path)
    lab.commit_events("U1@9=newer")
    lab.merge()
    with monkeypatch.context() as patch:
        fail(lab, patch, Transient("no answer"))
        with pytest.raises(Transient, match="no answer"):
            next_step(lab, first)
    assert lab.rows()[1] == "newer"
    second = next_step(lab, first)
    assert (second.done, lab.rows()[1]) == (False, "newer")
    assert (next_step(lab, second).done, lab.rows()[1]) == (True, "newer")


@pytest.mark.parametrize(
    ("fail", "error"),
    [
        (fail_to_read_mirror, Invalid("no history")),
        (fail_to_read_mirror, Corrupt("damaged")),
        (fail_to_plan_slices, Invalid("rolled back")),
    ],
)
def test_mirror_that_only_a_rebuild_can_repair_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: Fail, error: IcemirrorError
) -> None:
    lab, first = make(tmp_path)
    lab.commit_events("U1@9=newer")
    fail(lab, monkeypatch, error)
    assert next_step(lab, first).rebuilt
    assert lab.rows() == {1: "I1@1", 2: "I2@1"}  # the other events are merged after the swap


def test_stage_merges_the_new_head_of_a_rolled_back_changelog_before_the_swap(
    tmp_path: Path,
) -> None:
    lab, first = make(tmp_path)
    start = lab.changelog.refresh().current_snapshot()
    assert start is not None
    lab.commit_events("U1@9=undone")
    lab.merge()
    lab.changelog.refresh().manage_snapshots().rollback_to_snapshot(start.snapshot_id).commit()
    lab.changelog.refresh()
    lab.commit_events("U2@9=newer")
    assert lab.try_merge().error is not None
    second = next_step(lab, first)
    assert (second.done, lab.rows()) == (False, {1: "undone", 2: "I2@1"})
    third = next_step(lab, second)
    assert (third.rebuilt, lab.rows()) == (True, {1: "I1@1", 2: "newer"})


def test_swap_with_lost_response_is_recognized_after_its_snapshot_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, first = make(tmp_path)
    commit = Swap.commit

    def commit_without_response(self: RowDelta) -> NoReturn:
        commit(self)
        raise CommitUnknown("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(Swap, "commit", commit_without_response)
        with pytest.raises(CommitUnknown):
            next_step(lab, first)
    lab.commit_events("I3@9")
    lab.merge()
    table = lab.mirror
    head = table.metadata.current_snapshot_id
    with table.maintenance.expire_snapshots() as expiry:
        expiry.by_ids(
            [snapshot.snapshot_id for snapshot in table.metadata.snapshots if snapshot.snapshot_id != head]
        )
    before = lab.mirror.metadata_location
    repeated = next_step(lab, first)
    assert (repeated.done, repeated.rebuilt, lab.mirror.metadata_location) == (True, True, before)


@pytest.mark.parametrize("readable", [True, False])
def test_stale_changelog_does_not_swap_in_an_older_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readable: bool
) -> None:
    """The stage has merged all that the stale changelog lists, but less than was committed when the stage started."""
    lab = Lab.make(tmp_path, extra_config="batch_size: 2\n")
    lab.commit_events("I1@1 I2@1")
    stale = lab.pipeline.catalogs.load_changelog(lab.table)
    lab.commit_events("U1@9=newer U2@9=newer")
    lab.merge()
    first = replay_step(lab.pipeline, lab.table, FULL)
    with monkeypatch.context() as patch:
        patch.setattr(type(lab.pipeline.catalogs), "load_changelog", lambda *_: stale)
        if not readable:
            fail_to_read_mirror(lab, patch, Corrupt("damaged"))
        with pytest.raises(Transient, match="before commit 2"):
            next_step(lab, first)
    assert lab.rows() == {1: "newer", 2: "newer"}
    second = next_step(lab, first)
    assert (next_step(lab, second).rebuilt, lab.rows()) == (True, {1: "newer", 2: "newer"})


def test_stale_changelog_without_events_is_transient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path)
    stale = lab.pipeline.catalogs.load_changelog(lab.table)
    assert stale.current_snapshot() is None
    lab.commit_events("I1@1 I2@1")
    lab.merge()
    monkeypatch.setattr(type(lab.pipeline.catalogs), "load_changelog", lambda *_: stale)
    with pytest.raises(Transient, match="without the events"):
        replay_step(lab.pipeline, lab.table, FULL)


def test_permanently_rolled_back_changelog_is_followed(tmp_path: Path) -> None:
    lab, first = make(tmp_path)
    start = lab.changelog.refresh().current_snapshot()
    assert start is not None
    lab.commit_events("U1@9=undone")
    lab.merge()
    lab.changelog.refresh().manage_snapshots().rollback_to_snapshot(start.snapshot_id).commit()
    assert (next_step(lab, first).rebuilt, lab.rows()) == (True, {1: "I1@1", 2: "I2@1"})
