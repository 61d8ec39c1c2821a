"""`kill -9` of a rebuild before and after each effect: readers see the old or the new rows, and it is swapped once."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from spark_job.engine.engine import InProcessEngine
from spark_job.iceberg.property_names import PROPERTY_REPLAY
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.schedules import Schedule
from tests.sim.crash_points import REBUILD_POINTS, STAGE_MERGE_POINTS
from tests.sim.merge.forked_job import clean_orphans, merge, rebuild, run_forked

ROOT = Path(__file__).parents[3]


def test_every_crash_point_of_a_rebuild_is_tested() -> None:
    rebuild = ROOT / "spark_job" / "rebuild"
    text = "".join((rebuild / name).read_text() for name in ("rebuild.py", "swap_stage.py"))
    points = re.findall(r'crash_point\("([^"]+)"\)', text) + re.findall(
        r'"([^"]+)"', re.findall(r"CommitCrashPoints\(([^)]*)\)", text)[0]
    )
    assert set(points) == set(REBUILD_POINTS)


@pytest.mark.parametrize(
    ("point", "version"),
    [
        *((point, 2) for point in (*REBUILD_POINTS, *STAGE_MERGE_POINTS)),
        ("stage-kept", 3),
        ("swap", 3),
        ("swapped", 3),
    ],
)
def test_killed_rebuild_is_completed_by_the_next_run(tmp_path: Path, point: str, version: int) -> None:
    schedule = Schedule(seed=9, key="int", columns=("text", "amount"))
    options, extra_config = f"format_version: {version}", "batch_size: 10\n"
    world = MirroredWorld.make(
        tmp_path, schedule, InProcessEngine(), options=options, extra_config=extra_config, use_duckdb=False
    )
    world.oracle.commit_many(4)
    config = world.settings.source_path
    assert run_forked(merge, config, 2) == 0
    before = len(world.mirror.snapshots())
    assert run_forked(rebuild, config, 2, point) == -signal.SIGKILL, f"{point} was not reached"
    assert world.oracle.verdict(world.mirror).equal, "readers see the old rows, or the new ones"
    swapped = point in ("swapped", "stage-removed")
    assert len(world.mirror.snapshots()) == before + swapped
    world.oracle.commit_next()
    assert run_forked(rebuild, config, 2) == 0
    assert run_forked(merge, config, 2) == 0
    assert world.oracle.verdict(world.mirror).equal
    labels = [snapshot.summary[PROPERTY_REPLAY] for snapshot in world.mirror.snapshots() if snapshot.summary]
    assert labels.count("full") == 1, "swapped once"
    assert run_forked(clean_orphans, config, 2) == 0
    world.oracle.commit_next()
    assert run_forked(merge, config, 2) == 0
    for snapshot_id, verdict in world.oracle.verdicts_of_history(world.mirror).items():
        assert verdict.equal, f"{point}, snapshot {snapshot_id}: {verdict}"
