"""A truncation found ahead by a first merge or rebuild, which then disappears from the changelog."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from icemirror.errors import Kind
from icemirror.protocol.replay import Replay
from spark_job.rebuild.replay import replay_step
from tests.lab.lab import Lab
from tests.lab.truncations import VALUES, commit_events, filled, is_verified, make, rebuild_now

FULL = Replay(id="full-2", full=True, requested_at=0.0)


def start_first_merge(folder: Path) -> tuple[Lab, int]:
    """Start a first merge that finds a truncation ahead; return the changelog's snapshot before it, too."""
    lab = make(folder, batch=2)
    commit_events(lab, "I1@1 I2@1")
    good = commit_events(lab, "I3@2 I4@2")
    commit_events(lab, "T@5")
    lab.pipeline.advance(lab.table)
    return lab, good


def roll_back(lab: Lab, snapshot_id: int) -> None:
    """Roll back like an engine does: the main branch points to an older snapshot."""
    lab.changelog.refresh()
    with lab.changelog.manage_snapshots() as change:
        change.set_current_snapshot(snapshot_id)


def blocking_error(lab: Lab) -> str:
    """Return the error of a blocked merge."""
    error = lab.try_merge().error
    assert error is not None
    assert error.kind is Kind.INVALID
    return error.message


def test_first_merge_ignores_a_truncation_that_was_rolled_back(tmp_path: Path) -> None:
    lab, good = start_first_merge(tmp_path)
    roll_back(lab, good)
    commit_events(lab, "I5@6")
    assert "rolled back" in blocking_error(lab)
    rebuild_now(lab)
    lab.merge()
    assert lab.rows() == {1: "I1@1", 2: "I2@1", 3: "I3@2", 4: "I4@2", 5: "I5@6"}
    assert is_verified(lab)


def test_first_merge_ignores_a_truncation_that_the_settings_now_ignore(tmp_path: Path) -> None:
    lab, _ = start_first_merge(tmp_path)
    ignoring = lab.reconfigure(VALUES.replace("truncate", "ignore"), "batch_size: 2\n")
    assert "the settings" in blocking_error(ignoring)
    rebuild_now(ignoring)
    ignoring.merge()
    assert ignoring.rows() == {1: "I1@1", 2: "I2@1", 3: "I3@2", 4: "I4@2"}
    assert is_verified(ignoring)


def test_first_merge_continues_after_the_changelog_was_restored(tmp_path: Path) -> None:
    lab, good = start_first_merge(tmp_path)
    last = lab.changelog.refresh().metadata.current_snapshot_id
    assert last is not None
    roll_back(lab, good)
    assert "rolled back" in blocking_error(lab)
    roll_back(lab, last)
    lab.merge()
    assert lab.rows() == {}


def test_first_merge_waits_if_the_catalog_returns_an_older_changelog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path, batch=2)
    commit_events(lab, "I1@1 I2@1")
    commit_events(lab, "I3@2 I4@2")
    older = lab.catalog.load_table("lab.world_changelog")
    commit_events(lab, "T@5")
    lab.pipeline.advance(lab.table)
    with monkeypatch.context() as patch:
        patch.setattr(lab.pipeline.catalogs, "load_changelog", lambda _table: older)
        error = lab.try_merge().error
    assert error is not None
    assert error.kind is Kind.TRANSIENT
    lab.merge()
    assert lab.rows() == {}


def test_rebuild_ignores_a_truncation_that_was_rolled_back(tmp_path: Path) -> None:
    lab = filled(tmp_path, batch=2)
    before, good = lab.rows(), lab.changelog.snapshots()[-1].snapshot_id
    commit_events(lab, "T@4")
    replay = replace(FULL, progress=replay_step(lab.pipeline, lab.table, FULL).progress)
    roll_back(lab, good)
    commit_events(lab, "I9@9")
    while not (step := replay_step(lab.pipeline, lab.table, replay)).done:
        replay = replace(replay, progress=step.progress)
    lab.merge()
    assert lab.rows() == {**before, 9: "I9@9"}
    assert is_verified(lab)
