"""Verification finds a correct mirror equal, for any schedule and between any slices."""

from __future__ import annotations

import random
from pathlib import Path
from zlib import crc32

import pytest

from icemirror.step_results import Merged
from spark_job.engine.engine import InProcessEngine
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.key_pools import KEY_KINDS
from tests.oracle.schedules import Schedule
from tests.oracle.value_pools import VALUE_COLUMNS
from tests.sim.merge.verified import verify_deep


@pytest.mark.parametrize("key", sorted(KEY_KINDS))
def test_correct_mirror_is_equal_after_every_slice(tmp_path: Path, key: str) -> None:
    seed = crc32(key.encode())
    print(f"seed {seed}")
    dice = random.Random(seed)
    options, extra_config = (
        f"format_version: {dice.choice([2, 3])}",
        f"batch_size: {dice.choice([15, 60, 10_000])}\n",
    )
    schedule = Schedule(seed, key, tuple(VALUE_COLUMNS))
    engine = InProcessEngine(dice.choice([1, 3]))
    world = MirroredWorld.make(
        tmp_path, schedule, engine, options=options, extra_config=extra_config, use_duckdb=False
    )
    for _ in range(3):
        world.oracle.commit_many(dice.choice([1, 2]))
        merged = isinstance(world.pipeline.advance(world.table), Merged)
        verify_deep(world)
        while merged:
            merged = isinstance(world.pipeline.advance(world.table), Merged)
    verify_deep(world)
