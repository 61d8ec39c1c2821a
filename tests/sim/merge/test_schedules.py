"""The whole merge without Spark, over adversarial schedules: the mirror equals the oracle after every snapshot."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from icemirror.cli.demo.oracle.judge import Judge
from icemirror.result import Merged
from spark_job.engine import InProcess
from tests.mirrors import MirroredWorld, upgrade_like_java
from tests.oracle.key_pools import KEY_KINDS
from tests.oracle.schedules import Schedule


@pytest.mark.parametrize("key", sorted(KEY_KINDS))
@pytest.mark.parametrize("version", [2, 3])
def test_mirror_equals_oracle_after_every_snapshot(tmp_path: Path, key: str, version: int) -> None:
    run_schedule(tmp_path, key, random.SystemRandom().randrange(1 << 32), version=version)


@pytest.mark.parametrize("key", ["int", "string"])
def test_mirror_that_is_upgraded_on_the_way_keeps_its_deletes(tmp_path: Path, key: str) -> None:
    run_schedule(tmp_path, key, random.SystemRandom().randrange(1 << 32), version=2, upgrade_after=2)


@pytest.mark.parametrize("seed", [1, 2])
def test_null_lists_of_structs_stay_null(tmp_path: Path, seed: int) -> None:
    run_schedule(tmp_path, "int", seed, columns=("maybe_parts", "double"))


def run_schedule(
    folder: Path,
    key: str,
    seed: int,
    columns: tuple[str, ...] = (),
    version: int | None = None,
    upgrade_after: int | None = None,
) -> None:
    """One schedule with random slices, shards and commits between merges, of any format version unless told."""
    print(f"seed {seed}")
    dice = random.Random(seed)
    version = version or dice.choice([2, 3])
    schedule = Schedule(seed, key, columns) if columns else Schedule(seed, key)
    tail = f"batch_size: {dice.choice([15, 60, 10_000])}\n"
    engine = InProcess(dice.choice([1, 1, 3]))
    options = f"format_version: {version}"
    lab = MirroredWorld.make(folder, schedule, engine, options=options, tail=tail, ask_files=False)
    for number in range(5):
        if number == upgrade_after:
            upgrade_like_java(lab.mirror)
        lab.world.commit_many(dice.choice([1, 1, 2, 3]))
        steps = 0
        while isinstance(lab.pipeline.advance(lab.table), Merged):
            steps += 1
        assert steps, f"seed {seed}: a commit of the changelog moved nothing"
    assert lab.mirror.metadata.format_version == (3 if upgrade_after else version)
    for snapshot_id, verdict in lab.world.verdicts_of_history(lab.mirror).items():
        assert verdict.equal, f"seed {seed}, snapshot {snapshot_id}: {verdict}"
    lab.world.judge = Judge(lab.world.journal, True)
    assert lab.world.verdict(lab.mirror).equal, f"seed {seed}: the two oracles"
