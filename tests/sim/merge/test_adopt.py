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
from tests.mirrors import MirroredWorld
from tests.oracle.key_pools import KEY_KINDS
from tests.oracle.schedules import Schedule
from tests.sim.merge.forked_job import adopt, run_forked
from tests.sim.merge.verified import verify_deep

POINTS = ("adopt-indexed", "adopt-root-written", "adopt-commit", "adopted")


def _write_table(lab: MirroredWorld, dice: random.Random) -> Table:
    """Write the current rows of the changelog with PyIceberg, in several files, with the columns in another order."""
    names = set(lab.world.subject.columns.names)
    fields = [field for field in lab.world.shape.schema.fields if field.name in names]
    dice.shuffle(fields)
    fields = [field.model_copy(update={"required": False}) for field in fields]
    table = lab.pipeline.catalogs.get(None).create_table("lab.world", Schema(*fields))
    rows = lab.world.expected_table()
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
    lab = MirroredWorld.make(tmp_path, Schedule(seed, key), engine, use_duckdb=False)
    lab.world.commit_many(dice.choice([1, 3]))
    _write_table(lab, dice)
    adopted = adopt_table(lab.pipeline, lab.table, up_to, dry_run=False)
    for _ in range(3):
        lab.world.commit_many(dice.choice([1, 2]))
        while isinstance(lab.pipeline.advance(lab.table), Merged):
            pass
    for snapshot in lab.mirror.snapshots():
        is_merge = snapshot.summary and "icemirror.cursor" in snapshot.summary.additional_properties
        if is_merge and (up_to == "head" or snapshot.snapshot_id != adopted.snapshot_id):
            verdict = lab.world.verdict(lab.mirror, snapshot.snapshot_id)
            assert verdict.equal, f"seed {seed}: {verdict}"
    verify_deep(lab)


@pytest.mark.parametrize("point", POINTS)
def test_killed_adoption_leaves_the_unchanged_table_or_a_mirror(tmp_path: Path, point: str) -> None:
    lab = MirroredWorld.make(tmp_path, Schedule(seed=4, key="int"), InProcessEngine(), use_duckdb=False)
    lab.world.commit_many(2)
    before = _write_table(lab, random.Random(4)).metadata
    assert _adopt(lab, point) == -signal.SIGKILL, f"{point} was not reached"
    if point == "adopted":
        assert read_mirror(lab.mirror, "lab.world").live_rows == lab.mirror.scan().to_arrow().num_rows
    else:
        assert lab.mirror.metadata == before
        assert _adopt(lab, None) == 0
    assert PROPERTY_SOURCE in lab.mirror.metadata.properties
    lab.world.commit_many(2)
    while isinstance(lab.pipeline.advance(lab.table), Merged):
        pass
    assert lab.world.verdict(lab.mirror).equal
    verify_deep(lab)


def _adopt(lab: MirroredWorld, crash_at: str | None) -> int:
    return run_forked(adopt, lab.settings.source_path, 2, crash_at)
