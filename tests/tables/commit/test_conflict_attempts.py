"""A step that conflicts again and again ends after `MAX_ATTEMPTS` attempts, however its loops are nested."""

from __future__ import annotations

from pathlib import Path

import pytest

from icemirror.errors import Conflict
from icemirror.protocol.replay import Replay
from icemirror.step_results import Staged
from spark_job.commit.retry import MAX_ATTEMPTS
from spark_job.commit.row_delta import RowDelta
from spark_job.commit.swap_snapshot import Swap
from spark_job.rebuild.replay import replay_step
from tests.lab import recreated_changelog
from tests.lab.lab import Lab


class LosingCommits:
    """Lets every commit of a class conflict, and counts the attempts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, commit_class: type[RowDelta]) -> None:
        self.attempts = 0
        monkeypatch.setattr(commit_class, "commit", self._lose)

    def _lose(self) -> None:
        self.attempts += 1
        raise Conflict("another writer committed first")


def make(folder: Path) -> Lab:
    lab = Lab.make(folder)
    lab.commit_events("I1@1")
    lab.merge()
    lab.commit_events("I2@2")
    return lab


def test_merge_that_always_conflicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, commits = make(tmp_path), LosingCommits(monkeypatch, RowDelta)
    with pytest.raises(Conflict, match="Find out which other job writes to the mirror"):
        lab.pipeline.advance(lab.table)
    assert commits.attempts == MAX_ATTEMPTS


def test_merge_into_a_stage_that_always_conflicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, commits = make(tmp_path), LosingCommits(monkeypatch, RowDelta)
    with pytest.raises(Conflict, match="Find out which other job writes to the mirror"):
        replay_step(lab.pipeline, lab.table, Replay("full-1", 0.0, full=True))
    assert commits.attempts == MAX_ATTEMPTS


def test_resync_whose_stage_always_conflicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = recreated_changelog.recreate_changelog(recreated_changelog.make(tmp_path))
    lab.commit_events("I1@1=new")
    commits = LosingCommits(monkeypatch, RowDelta)
    with pytest.raises(Conflict, match="Find out which other job writes to the mirror"):
        lab.pipeline.advance(lab.table)
    assert commits.attempts == MAX_ATTEMPTS


def test_resync_whose_swap_always_conflicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = recreated_changelog.recreate_changelog(recreated_changelog.make(tmp_path))
    lab.commit_events("I1@1=new")
    commits = LosingCommits(monkeypatch, Swap)
    assert isinstance(lab.pipeline.advance(lab.table), Staged)
    with pytest.raises(Conflict, match="Find out which other job writes to mirror or changelog"):
        lab.pipeline.advance(lab.table)
    assert commits.attempts == MAX_ATTEMPTS


def test_swap_that_always_conflicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = make(tmp_path)
    step = replay_step(lab.pipeline, lab.table, Replay("full-1", 0.0, full=True))
    commits = LosingCommits(monkeypatch, Swap)
    with pytest.raises(Conflict, match="before each swap"):
        replay_step(lab.pipeline, lab.table, Replay("full-1", 0.0, full=True, progress=step.progress))
    assert commits.attempts == MAX_ATTEMPTS
