"""`kill -9` during expiry and orphan removal: no referenced file is lost, and the next run leaves no orphans."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from spark_job.commands.merge_table import merge_table
from spark_job.engine.engine import InProcessEngine
from tests.lab.mirrored_world import MirroredWorld
from tests.lab.referenced_files import referenced_files, stored_files
from tests.oracle.schedules import Schedule
from tests.sim.merge.forked_job import Work, clean_orphans, expire, merge, run_forked

OPTIONS = """table_properties:
  icemirror.max-snapshots: "4"
  history.expire.min-snapshots-to-keep: "2"
  write.metadata.previous-versions-max: "2"
"""
MERGE_POINTS = ("commit", "committed", "delete-expired", "expired-half-deleted", "expired-deleted")
EXPIRE_POINTS = ("expire", "expired", "delete-expired", "expired-half-deleted", "expired-deleted")
ORPHAN_POINTS = ("orphans-listed", "delete-orphans", "orphans-deleted")


def _run(world: MirroredWorld, work: Work, crash_at: str | None = None) -> int:
    return run_forked(work, world.settings.source_path, 1, crash_at)


def _make(folder: Path, merges: int, options: str = OPTIONS) -> MirroredWorld:
    schedule = Schedule(5, "int", columns=("double",), largest_commit=8)
    world = MirroredWorld.make(folder, schedule, InProcessEngine(), options=options, use_duckdb=False)
    for _ in range(merges):
        world.oracle.commit_next()
        assert merge_table(world.pipeline, world.table).error is None
    return world


def _stored(world: MirroredWorld) -> set[Path]:
    return stored_files(world.settings.source_path.parent / "warehouse")


def _check_files_and_rows(world: MirroredWorld) -> None:
    """Check that every retained snapshot is unchanged and complete, and that the next merge works."""
    assert referenced_files(world.mirror) <= _stored(world)
    world.oracle.commit_many(2)
    assert _run(world, merge) == 0
    for snapshot_id, verdict in world.oracle.verdicts_of_history(world.mirror).items():
        assert verdict.equal, f"snapshot {snapshot_id}: {verdict}"
    clean_orphans(world.pipeline, world.table)
    assert _stored(world) == referenced_files(world.mirror)
    assert world.oracle.verdict(world.mirror).equal


@pytest.mark.parametrize("point", MERGE_POINTS)
def test_merge_killed_during_expiry_loses_no_file(tmp_path: Path, point: str) -> None:
    world = _make(tmp_path, 4)
    world.oracle.commit_next()
    assert _run(world, merge, point) == -signal.SIGKILL, f"{point} was not reached"
    _check_files_and_rows(world)


@pytest.mark.parametrize("point", EXPIRE_POINTS)
def test_killed_expire_loses_no_file(tmp_path: Path, point: str) -> None:
    world = _make(tmp_path, 7, options="table_properties: {icemirror.max-snapshots: '50'}")
    with world.mirror.transaction() as transaction:
        transaction.set_properties(
            {"icemirror.max-snapshots": "3", "history.expire.min-snapshots-to-keep": "2"}
        )
    assert _run(world, expire, point) == -signal.SIGKILL, f"{point} was not reached"
    assert _run(world, expire) == 0
    assert len(world.mirror.metadata.snapshots) == 3
    _check_files_and_rows(world)


@pytest.mark.parametrize("point", ORPHAN_POINTS)
def test_killed_clean_orphans_loses_no_file(tmp_path: Path, point: str) -> None:
    world = _make(tmp_path, 4)
    world.oracle.commit_next()
    assert _run(world, merge, "root-written") == -signal.SIGKILL
    assert referenced_files(world.mirror) < _stored(world)
    assert _run(world, clean_orphans, point) == -signal.SIGKILL, f"{point} was not reached"
    _check_files_and_rows(world)
