"""The job runs on PySpark 3.5: it uses no newer feature of Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_job.engine.engine import InProcessEngine
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.schedules import Schedule

# Both ways to run a slice: a limit below the number of events shards the first slice.
_MERGE = """
import sys, pyspark
from dataclasses import replace
from spark_job.engine.size_policy import SizePolicy
print(pyspark.__version__, file=sys.stderr)
events, where_to_run = int(sys.argv.pop(1)), SizePolicy.where_to_run
SizePolicy.where_to_run = lambda policy, size: where_to_run(replace(policy, one_task_events=events), size)
from icemirror.cli.main import main
main()
"""


@pytest.mark.parametrize("one_task_events", [0, 1_000_000], ids=["sharded", "one task"])
def test_merge_runs_on_pyspark_3_5(tmp_path: Path, pyspark35_folder: Path, one_task_events: int) -> None:
    schedule = Schedule(seed=35, key="composite", largest_commit=2000)
    world = MirroredWorld.make(
        tmp_path, schedule, InProcessEngine(), extra_config="batch_size: 200\njob: {spark_from_events: 0}\n"
    )
    world.oracle.commit_many(6)
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            _MERGE,
            str(one_task_events),
            "merge",
            "--json",
            "-c",
            world.settings.source_path,
        ],
        env={**os.environ, "PYTHONPATH": str(pyspark35_folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr.startswith("3.5."), run.stderr[:200]
    result = json.loads(run.stdout)
    assert result["outcome"] == "merged"
    assert len(result["slices"]) >= 2, "only the first slice, which has no old rows"
    for snapshot_id, verdict in world.oracle.verdicts_of_history(world.mirror).items():
        assert verdict.equal, f"snapshot {snapshot_id}: {verdict}"
