"""`kill -9` during expiry and orphan removal: no referenced file is lost, and the next run leaves no orphans."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from spark_job.commands.merge_table import merge_table
from spark_job.engine.engine import InProcessEngine
from tests.mirrors import MirroredWorld
from tests.oracle.schedules import Schedule
from tests.referenced import referenced_files, stored_files
from tests.sim.merge.forked_job import Work, clean_orphans, expire, merge, run_forked

OPTIONS = """table_properties:
  icemirror.max-snapshots: "4"
  history.expire.min-snapshots-to-keep: "2"
  write.metadata.previous-versions-max: "2"
"""
MERGE_POINTS = ("commit", "committed", "delete-expired", "expired-half-deleted", "expired-deleted")
EXPIRE_POINTS = ("expire", "expired", "delete-expired", "expired-half-deleted", "expired-deleted")
ORPHAN_POINTS = ("orphans-listed", "delete-orphans", "orphans-deleted")


def _run(lab: MirroredWorld, work: Work, crash_at: str | None = None) -> int:
    return run_forked(work, lab.settings.source_path, 1, crash_at)


def _make(folder: Path, merges: int, options: str = OPTIONS) -> MirroredWorld:
    schedule = Schedule(5, "int", columns=("double",), largest_commit=8)
    lab = MirroredWorld.make(folder, schedule, InProcessEngine(), options=options, use_duckdb=False)
    for _ in range(merges):
        lab.world.commit_next()
        assert merge_table(lab.pipeline, lab.table).error is None
    return lab


def _stored(lab: MirroredWorld) -> set[Path]:
    return stored_files(lab.settings.source_path.parent / "warehouse")


def _check_files_and_rows(lab: MirroredWorld) -> None:
    """Check that every retained snapshot is unchanged and complete, and that the next merge works."""
    assert referenced_files(lab.mirror) <= _stored(lab)
    lab.world.commit_many(2)
    assert _run(lab, merge) == 0
    for snapshot_id, verdict in lab.world.verdicts_of_history(lab.mirror).items():
        assert verdict.equal, f"snapshot {snapshot_id}: {verdict}"
    clean_orphans(lab.pipeline, lab.table)
    assert _stored(lab) == referenced_files(lab.mirror)
    assert lab.world.verdict(lab.mirror).equal


@pytest.mark.parametrize("point", MERGE_POINTS)
def test_merge_killed_during_expiry_loses_no_file(tmp_path: Path, point: str) -> None:
    lab = _make(tmp_path, 4)
    lab.world.commit_next()
    assert _run(lab, merge, point) == -signal.SIGKILL, f"{point} was not reached"
    _check_files_and_rows(lab)


@pytest.mark.parametrize("point", EXPIRE_POINTS)
def test_killed_expire_loses_no_file(tmp_path: Path, point: str) -> None:
    lab = _make(tmp_path, 7, options="table_properties: {icemirror.max-snapshots: '50'}")
    with lab.mirror.transaction() as transaction:
        transaction.set_properties(
            {"icemirror.max-snapshots": "3", "history.expire.min-snapshots-to-keep": "2"}
        )
    assert _run(lab, expire, point) == -signal.SIGKILL, f"{point} was not reached"
    assert _run(lab, expire) == 0
    assert len(lab.mirror.metadata.snapshots) == 3
    _check_files_and_rows(lab)


@pytest.mark.parametrize("point", ORPHAN_POINTS)
def test_killed_clean_orphans_loses_no_file(tmp_path: Path, point: str) -> None:
    lab = _make(tmp_path, 4)
    lab.world.commit_next()
    assert _run(lab, merge, "root-written") == -signal.SIGKILL
    assert referenced_files(lab.mirror) < _stored(lab)
    assert _run(lab, clean_orphans, point) == -signal.SIGKILL, f"{point} was not reached"
    _check_files_and_rows(lab)
