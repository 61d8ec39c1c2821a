"""`kill -9` of a merge before and after each effect; the next run completes it, without duplicates."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_job.engine.engine import InProcessEngine
from spark_job.iceberg.property_names import PROPERTY_INDEX_ROOT
from spark_job.index.root import read_root
from spark_job.pyiceberg_private.manifest_files import read_manifest_entries
from spark_job.pyiceberg_private.v3_fields import DeleteKey, delete_key
from tests.lab.manifests import list_manifests
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.schedules import Schedule
from tests.sim.crash_points import CREATE_POINTS, SLICE_POINTS
from tests.sim.merge.forked_job import merge, run_forked

_MAX_MERGES = 30


def _merge(world: MirroredWorld, crash_at: str | None) -> int:
    return run_forked(merge, world.settings.source_path, 2, crash_at)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("point", [*CREATE_POINTS, *SLICE_POINTS])
def test_killed_merge_is_merged_once_by_the_next(tmp_path: Path, point: str, version: int) -> None:
    schedule, options = Schedule(seed=9, key="int"), f"format_version: {version}"
    world = MirroredWorld.make(tmp_path, schedule, InProcessEngine(), options=options, use_duckdb=False)
    world.oracle.commit_many(2)
    if point not in CREATE_POINTS:
        assert _merge(world, None) == 0
        world.oracle.commit_many(2)
    assert _merge(world, point) == -signal.SIGKILL, f"{point} was not reached"
    assert _merge(world, None) == 0
    verdicts = world.oracle.verdicts_of_history(world.mirror)
    assert verdicts
    for snapshot_id, verdict in verdicts.items():
        assert verdict.equal, f"{point}, snapshot {snapshot_id}: {verdict}"
    cursors = [
        s.summary.additional_properties["icemirror.cursor"] for s in world.mirror.snapshots() if s.summary
    ]
    assert len(set(cursors)) == len(cursors), "a slice was committed twice"
    _check_no_file_was_added_twice(world)


def _damage(world: MirroredWorld) -> None:
    root = read_root(world.mirror.io, world.mirror.properties[PROPERTY_INDEX_ROOT])
    world.mirror.io.delete(root.segments[-1].path)


def _compact(world: MirroredWorld) -> None:
    world.mirror.overwrite(world.mirror.scan().to_arrow())


@pytest.mark.parametrize(
    ("point", "before"),
    [("segments-rebuilt", _damage), ("foreign-writes-indexed", _compact), ("index-merged", None)],
)
def test_killed_index_repair_is_completed_by_the_next_merge(
    tmp_path: Path, point: str, before: Callable[[MirroredWorld], None] | None
) -> None:
    """Covers damaged segments, foreign writes, and merges of index runs."""
    schedule = Schedule(seed=9, key="int", columns=("text", "amount"))
    world = MirroredWorld.make(tmp_path, schedule, InProcessEngine(), use_duckdb=False)
    world.oracle.commit_many(2)
    assert _merge(world, None) == 0
    if before:
        before(world)
    exit_code = 0
    for _ in range(_MAX_MERGES):
        world.oracle.commit_next()
        exit_code = _merge(world, point)
        if exit_code:
            break
    assert exit_code == -signal.SIGKILL, f"{point} was not reached"
    assert _merge(world, None) == 0
    assert world.oracle.verdict(world.mirror).equal
    _check_no_file_was_added_twice(world)


def _check_no_file_was_added_twice(world: MirroredWorld) -> None:
    added: list[DeleteKey] = []
    for snapshot in world.mirror.snapshots():
        for manifest in list_manifests(world.mirror.io, snapshot.manifest_list):
            if manifest.added_snapshot_id == snapshot.snapshot_id:
                entries = read_manifest_entries(world.mirror.io, manifest)
                added += [
                    delete_key(entry.data_file)
                    for entry in entries
                    if entry.snapshot_id == snapshot.snapshot_id
                ]
    assert len(set(added)) == len(added)
