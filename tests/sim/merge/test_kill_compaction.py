"""`kill -9` before and after each effect of a compaction: every row exists once, in its old or its new file."""

from __future__ import annotations

import signal
from itertools import cycle
from pathlib import Path

import pytest

from spark_job.commands.merge_table import merge_table
from spark_job.engine.engine import InProcessEngine
from spark_job.iceberg.live_files import live_files
from spark_job.maintenance.choose_files import FAN_IN
from tests.lab.mirrored_world import MirroredWorld
from tests.lab.referenced_files import referenced_files, stored_files
from tests.oracle.schedules import Schedule
from tests.sim.crash_points import COMMIT_POINTS, COMPACTION_POINTS
from tests.sim.merge.forked_job import clean_orphans, merge, run_forked

# The merge reaches the points of a commit once, then the compaction reaches them again.
POINTS = (*COMPACTION_POINTS, *(f"{point}:2" for point in COMMIT_POINTS))


def _merge(world: MirroredWorld, crash_at: str | None = None) -> int:
    return run_forked(merge, world.settings.source_path, 1, crash_at)


@pytest.mark.parametrize(("point", "version"), list(zip(POINTS, cycle([2, 3]), strict=False)))
def test_killed_compaction_is_repeated_or_was_committed(tmp_path: Path, point: str, version: int) -> None:
    schedule, options = Schedule(seed=9, key="int", largest_commit=8), f"format_version: {version}"
    world = MirroredWorld.make(tmp_path, schedule, InProcessEngine(), options=options, use_duckdb=False)
    for _ in range(FAN_IN - 3):
        world.oracle.commit_next()
        assert merge_table(world.pipeline, world.table).error is None
    for _ in range(FAN_IN):
        world.oracle.commit_next()
        if _merge(world, point) == -signal.SIGKILL:
            break
    else:
        pytest.fail(f"{point} was not reached")
    assert world.oracle.verdict(world.mirror).equal
    world.oracle.commit_next()
    assert _merge(world) == 0
    for snapshot_id, verdict in world.oracle.verdicts_of_history(world.mirror).items():
        assert verdict.equal, f"{point}, snapshot {snapshot_id}: {verdict}"
    assert len(live_files(world.mirror.io, world.mirror.current_snapshot())) < FAN_IN
    clean_orphans(world.pipeline, world.table)
    assert stored_files(tmp_path / "warehouse") == referenced_files(world.mirror)
