"""Adopted tables with adversarial schedules, and `kill -9` before and after every step of an adoption."""

from __future__ import annotations

import random
import signal
from pathlib import Path
from zlib import crc32

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from icemirror.step_results import Merged
from spark_job.commands.adopt.adopt_table import adopt_table
from spark_job.engine.engine import InProcessEngine
from spark_job.iceberg.mirror import read_mirror
from spark_job.iceberg.property_names import PROPERTY_SOURCE
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.key_pools import KEY_KINDS
from tests.oracle.schedules import Schedule
from tests.sim.merge.forked_job import adopt, run_forked
from tests.sim.merge.verified import verify_deep

POINTS = ("adopt-indexed", "adopt-root-written", "adopt-commit", "adopted")


def _write_table(world: MirroredWorld, dice: random.Random) -> Table:
    """Write the current rows of the changelog with PyIceberg, in several files, with the columns in another order."""
    names = set(world.oracle.subject.columns.names)
    fields = [field for field in world.oracle.shape.schema.fields if field.name in names]
    dice.shuffle(fields)
    fields = [field.model_copy(update={"required": False}) for field in fields]
    table = world.pipeline.catalogs.get(None).create_table("lab.world", Schema(*fields))
    rows = world.oracle.expected_table()
    rows = rows.select([field.name for field in table.schema().fields])
    cuts = sorted(dice.choices(range(rows.num_rows + 1), k=2))
    for start, end in zip((0, *cuts), (*cuts, rows.num_rows), strict=True):
        if end > start:
            table.append(rows.slice(start, end - start).cast(table.schema().as_arrow()))
    return table


@pytest.mark.parametrize("key", sorted(KEY_KINDS))
def test_adopted_table_equals_the_oracle_after_every_snapshot(tmp_path: Path, key: str) -> None:
    seed = crc32(key.encode())
    print(f"seed {seed}")
    dice = random.Random(seed)
    up_to = dice.choice(["head", "none"])
    engine = InProcessEngine(dice.choice([1, 3]))
    world = MirroredWorld.make(tmp_path, Schedule(seed, key), engine, use_duckdb=False)
    world.oracle.commit_many(dice.choice([1, 3]))
    _write_table(world, dice)
    adopted = adopt_table(world.pipeline, world.table, up_to, dry_run=False)
    for _ in range(3):
        world.oracle.commit_many(dice.choice([1, 2]))
        while isinstance(world.pipeline.advance(world.table), Merged):
            pass
    for snapshot in world.mirror.snapshots():
        is_merge = snapshot.summary and "icemirror.cursor" in snapshot.summary.additional_properties
        if is_merge and (up_to == "head" or snapshot.snapshot_id != adopted.snapshot_id):
            verdict = world.oracle.verdict(world.mirror, snapshot.snapshot_id)
            assert verdict.equal, f"seed {seed}: {verdict}"
    verify_deep(world)


@pytest.mark.parametrize("point", POINTS)
def test_killed_adoption_leaves_the_unchanged_table_or_a_mirror(tmp_path: Path, point: str) -> None:
    world = MirroredWorld.make(tmp_path, Schedule(seed=4, key="int"), InProcessEngine(), use_duckdb=False)
    world.oracle.commit_many(2)
    before = _write_table(world, random.Random(4)).metadata
    assert _adopt(world, point) == -signal.SIGKILL, f"{point} was not reached"
    if point == "adopted":
        assert read_mirror(world.mirror, "lab.world").live_rows == world.mirror.scan().to_arrow().num_rows
    else:
        assert world.mirror.metadata == before
        assert _adopt(world, None) == 0
    assert PROPERTY_SOURCE in world.mirror.metadata.properties
    world.oracle.commit_many(2)
    while isinstance(world.pipeline.advance(world.table), Merged):
        pass
    assert world.oracle.verdict(world.mirror).equal
    verify_deep(world)


def _adopt(world: MirroredWorld, crash_at: str | None) -> int:
    return run_forked(adopt, world.settings.source_path, 2, crash_at)
