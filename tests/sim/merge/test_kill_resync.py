"""`kill -9` of a merge that rebuilds by policy: readers see the old or the new rows, never none; it is swapped once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.iceberg.property_names import PROPERTY_REPLAY
from spark_job.iceberg.stage import RESYNC_PREFIX
from tests.lab.lab import Lab
from tests.lab.recreated_changelog import OLD, lose_history, make, recreate_changelog
from tests.sim.crash_points import REBUILD_POINTS, STAGE_MERGE_POINTS
from tests.sim.merge.forked_job import clean_orphans, merge, run_forked

NEW = {1: "new", 2: "I2@1", 4: "I4@1", 7: "x"}
SWAPPED = ("swapped", "stage-removed")
EMPTY_REBUILD_POINTS = tuple(point for point in REBUILD_POINTS if point not in ("stage-merged", "stage-kept"))


def swaps(lab: Lab) -> int:
    labels = [snapshot.summary[PROPERTY_REPLAY] for snapshot in lab.mirror.snapshots() if snapshot.summary]
    return len([label for label in labels if label and label.startswith(RESYNC_PREFIX)])


@pytest.mark.parametrize(
    ("point", "version"),
    [
        *((point, 2) for point in (*REBUILD_POINTS, *STAGE_MERGE_POINTS)),
        ("stage-kept", 3),
        ("swap", 3),
        ("swapped", 3),
    ],
)
def test_recreated_changelog_is_followed_wherever_the_merge_is_killed(
    tmp_path: Path, point: str, version: int
) -> None:
    lab = recreate_changelog(make(tmp_path, f"format_version: {version}"))
    lab.commit_events("I1@1=new I2@1", "I3@1 I4@1", "I7@1")
    lab.commit_events("U7@2=x D3@2")
    config = lab.settings.source_path
    assert run_forked(merge, config, 2, point) == -signal.SIGKILL, f"{point} was not reached"
    assert (lab.rows(), swaps(lab)) == ((NEW, 1) if point in SWAPPED else (OLD, 0))
    lab.commit_events("I9@3")
    assert run_forked(merge, config, 2) == 0
    assert (lab.rows(), swaps(lab)) == ({**NEW, 9: "I9@3"}, 1)
    assert run_forked(clean_orphans, config, 2) == 0
    lab.commit_events("U9@4=y")
    assert run_forked(merge, config, 2) == 0
    assert lab.rows() == {**NEW, 9: "y"}
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal


@pytest.mark.parametrize("point", EMPTY_REBUILD_POINTS)
def test_empty_recreated_changelog_empties_the_mirror_wherever_the_merge_is_killed(
    tmp_path: Path, point: str
) -> None:
    lab = recreate_changelog(make(tmp_path))
    config = lab.settings.source_path
    assert run_forked(merge, config, 2, point) == -signal.SIGKILL, f"{point} was not reached"
    assert lab.rows() == ({} if point in SWAPPED else OLD)
    assert run_forked(merge, config, 2) == 0
    assert (lab.rows(), swaps(lab)) == ({}, 1)
    lab.commit_events("I1@1")
    assert run_forked(merge, config, 2) == 0
    assert lab.rows() == {1: "I1@1"}


@pytest.mark.parametrize("point", ["stage-kept", "stage-kept:2", "swap", "swapped"])
def test_expired_cursor_is_rebuilt_wherever_the_merge_is_killed(tmp_path: Path, point: str) -> None:
    lab = make(tmp_path, "on_expired_cursor: rebuild")
    lab.commit_events("I7@7")
    lab.commit_events("I8@8")
    lose_history(lab)
    config = lab.settings.source_path
    assert run_forked(merge, config, 2, point) == -signal.SIGKILL, f"{point} was not reached"
    after = {**OLD, 7: "I7@7", 8: "I8@8"}
    assert lab.rows() == (after if point in SWAPPED else OLD)
    assert run_forked(merge, config, 2) == 0
    assert (lab.rows(), swaps(lab)) == (after, 1)
