"""Merge a schedule on a lake, and compare the mirror with the oracle."""

from __future__ import annotations

import random
from pathlib import Path

from icemirror.step_results import Merged, NothingToMerge, Rebuilt
from spark_job.engine.engine import InProcessEngine
from spark_job.rebuild.rebuild import rebuild_step
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.schedules import Schedule
from tests.services.lakes import Lake, mirrored_world
from trigger.heads.head_source import open_head_source


def merge_schedule(folder: Path, lake: Lake, key: str = "int", batches: int = 4) -> MirroredWorld:
    """Commit and merge alternately, and compare every snapshot of the mirror with the oracle."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    world = mirrored_world(folder, lake, Schedule(seed, key), InProcessEngine(rng.choice([1, 2])))
    for _ in range(batches):
        world.oracle.commit_many(rng.choice([1, 2]))
        while isinstance(world.pipeline.advance(world.table), Merged):
            assert world.oracle.verdict(world.mirror).equal, f"seed {seed}"
    assert world.mirror.current_snapshot() is not None
    rebuild(world)
    check_head(world)
    truncate(world)
    return world


def rebuild(world: MirroredWorld) -> None:
    """Rebuild the mirror in place, then merge further commits into it."""
    before, step = world.mirror, rebuild_step(world.pipeline, world.table, "rebuild", None)
    while not step.done:
        assert world.mirror.metadata_location == before.metadata_location
        step = rebuild_step(world.pipeline, world.table, "rebuild", step.progress)
    assert step.rebuilt
    assert world.mirror.metadata.table_uuid == before.metadata.table_uuid
    assert world.oracle.verdict(world.mirror).equal
    world.oracle.commit_next()
    assert isinstance(world.pipeline.advance(world.table), Merged)
    assert world.oracle.verdict(world.mirror).equal


def truncate(world: MirroredWorld) -> None:
    """Recreate the changelog, as its writer does for a TRUNCATE; the mirror resyncs."""
    catalog, name = world.pipeline.catalogs.get(world.table.changelog_catalog), world.table.changelog_id.parts
    schema, before = catalog.load_table(name).schema(), world.mirror
    catalog.drop_table(name)
    catalog.create_table(name, schema)
    assert isinstance(world.pipeline.advance(world.table), Rebuilt)
    assert world.mirror.scan().count() == 0
    assert world.mirror.metadata.table_uuid == before.metadata.table_uuid
    assert isinstance(world.pipeline.advance(world.table), NothingToMerge)


def check_head(world: MirroredWorld) -> None:
    """The trigger's head poll returns the head that `NothingToMerge` reports."""
    step = world.pipeline.advance(world.table)
    assert isinstance(step, NothingToMerge)
    name = world.table.changelog_catalog
    heads = open_head_source(world.settings.catalog_properties(name), name)
    try:
        assert heads.load_heads([world.table.changelog_id]) == {world.table.changelog_id: step.head_location}
    finally:
        heads.close()
