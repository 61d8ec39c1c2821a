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
from tests.mirrors import MirroredWorld
from tests.oracle.schedules import Schedule
from tests.referenced import referenced_files, stored_files
from tests.sim.merge.forked_job import clean_orphans, merge, run_forked

# The merge reaches the points of a commit once, then the compaction reaches them again.
POINTS = (
    "write-moved",
    "moved-written",
    "moved-indexed",
    "root-written:2",
    "commit:2",
    "committed:2",
)


def _merge(lab: MirroredWorld, crash_at: str | None = None) -> int:
    return run_forked(merge, lab.settings.source_path, 1, crash_at)


@pytest.mark.parametrize(("point", "version"), list(zip(POINTS, cycle([2, 3]), strict=False)))
def test_killed_compaction_is_repeated_or_was_committed(tmp_path: Path, point: str, version: int) -> None:
    schedule, options = Schedule(seed=9, key="int", largest_commit=8), f"format_version: {version}"
    lab = MirroredWorld.make(tmp_path, schedule, InProcessEngine(), options=options, use_duckdb=False)
    for _ in range(FAN_IN - 3):
        lab.world.commit_next()
        assert merge_table(lab.pipeline, lab.table).error is None
    for _ in range(FAN_IN):
        lab.world.commit_next()
        if _merge(lab, point) == -signal.SIGKILL:
            break
    else:
        pytest.fail(f"{point} was not reached")
    assert lab.world.verdict(lab.mirror).equal
    lab.world.commit_next()
    assert _merge(lab) == 0
    for snapshot_id, verdict in lab.world.verdicts_of_history(lab.mirror).items():
        assert verdict.equal, f"{point}, snapshot {snapshot_id}: {verdict}"
    assert len(live_files(lab.mirror.io, lab.mirror.current_snapshot())) < FAN_IN
    clean_orphans(lab.pipeline, lab.table)
    assert stored_files(tmp_path / "warehouse") == referenced_files(lab.mirror)
