"""Runs a schedule of changes and merges on files, without Spark, and compares every snapshot with the oracle."""

from __future__ import annotations

import random
from pathlib import Path

from icemirror.cli.demo.oracle.verifier import MirrorVerifier
from icemirror.step_results import Merged
from spark_job.engine.engine import InProcessEngine
from tests.lab.mirrored_world import MirroredWorld, upgrade_like_java
from tests.oracle.schedules import Schedule


def run_schedule(
    folder: Path,
    key: str,
    seed: int,
    columns: tuple[str, ...] = (),
    version: int | None = None,
    upgrade_after: int | None = None,
) -> None:
    """Run one schedule with random slices, shards and commits between merges; a random format version by default."""
    print(f"seed {seed}")
    dice = random.Random(seed)
    version = version or dice.choice([2, 3])
    schedule = Schedule(seed, key, columns) if columns else Schedule(seed, key)
    extra_config = f"batch_size: {dice.choice([15, 60, 10_000])}\n"
    engine = InProcessEngine(dice.choice([1, 1, 3]))
    options = f"format_version: {version}"
    world = MirroredWorld.make(
        folder, schedule, engine, options=options, extra_config=extra_config, use_duckdb=False
    )
    for number in range(5):
        if number == upgrade_after:
            upgrade_like_java(world.mirror)
        world.oracle.commit_many(dice.choice([1, 1, 2, 3]))
        steps = 0
        while isinstance(world.pipeline.advance(world.table), Merged):
            steps += 1
        assert steps, f"seed {seed}: a commit of the changelog was not merged"
    assert world.mirror.metadata.format_version == (3 if upgrade_after else version)
    for snapshot_id, verdict in world.oracle.verdicts_of_history(world.mirror).items():
        assert verdict.equal, f"seed {seed}, snapshot {snapshot_id}: {verdict}"
    world.oracle.judge = MirrorVerifier(world.oracle.journal, True)
    assert world.oracle.verdict(world.mirror).equal, f"seed {seed}: the two oracles"
