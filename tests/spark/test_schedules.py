"""Random schedules on Spark, with both ways to run a slice, all codecs and format versions: mirror = oracle."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark import SparkContext

from icemirror.cli.demo.oracle.verifier import MirrorVerifier
from icemirror.step_results import Merged
from spark_job.engine.size_policy import SizePolicy
from spark_job.engine.spark_engine import SparkEngine
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.schedules import Schedule

_ALL = 1 << 40
_MODES = {"one task": _ALL, "sharded": 0}
_KEYS = ("int", "uuid", "string", "composite", "date")
_BATCHES = 4


@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("key", _KEYS)
@pytest.mark.parametrize("mode", _MODES)
def test_mirror_equals_oracle_after_every_snapshot(
    tmp_path: Path, spark: SparkContext, mode: str, key: str, number: int
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    large = number == 1
    schedule = Schedule(
        seed, key, distinct_keys=20_000 if large else 200, largest_commit=50_000 if large else 500
    )
    engine = SparkEngine(spark, SizePolicy(one_task_events=_MODES[mode], one_task_bytes=_ALL))
    rng = random.Random(seed)
    options = f"format_version: {2 + (_KEYS.index(key) + number) % 2}"
    world = MirroredWorld.make(tmp_path, schedule, engine, options=options, use_duckdb=False)
    for _ in range(_BATCHES):
        world.oracle.commit_many(rng.choice([1, 2]))
        while isinstance(world.pipeline.advance(world.table), Merged):
            pass
    for snapshot_id, verdict in world.oracle.verdicts_of_history(world.mirror).items():
        assert verdict.equal, f"seed {seed}, snapshot {snapshot_id}: {verdict}"
    world.oracle.judge = MirrorVerifier(world.oracle.journal, True)
    assert world.oracle.verdict(world.mirror).equal, f"seed {seed}: with both oracles"
