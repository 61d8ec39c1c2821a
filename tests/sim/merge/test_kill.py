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
from tests.manifests import list_manifests
from tests.mirrors import MirroredWorld
from tests.oracle.schedules import Schedule
from tests.sim.merge.forked_job import merge, run_forked

POINTS = (
    "create-mirror",
    "mirror-created",
    "write-data",
    "data-written",
    "segment-written",
    "write-deletes",
    "deletes-written",
    "root-written",
    "commit",
    "committed",
)
_FIRST_MERGE_ONLY = ("create-mirror", "mirror-created")
_MAX_MERGES = 30


def _merge(lab: MirroredWorld, crash_at: str | None) -> int:
    return run_forked(merge, lab.settings.source_path, 2, crash_at)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("point", POINTS)
def test_killed_merge_is_merged_once_by_the_next(tmp_path: Path, point: str, version: int) -> None:
    schedule, options = Schedule(seed=9, key="int"), f"format_version: {version}"
    lab = MirroredWorld.make(tmp_path, schedule, InProcessEngine(), options=options, use_duckdb=False)
    lab.world.commit_many(2)
    if point not in _FIRST_MERGE_ONLY:
        assert _merge(lab, None) == 0
        lab.world.commit_many(2)
    assert _merge(lab, point) == -signal.SIGKILL, f"{point} was not reached"
    assert _merge(lab, None) == 0
    verdicts = lab.world.verdicts_of_history(lab.mirror)
    assert verdicts
    for snapshot_id, verdict in verdicts.items():
        assert verdict.equal, f"{point}, snapshot {snapshot_id}: {verdict}"
    cursors = [
        s.summary.additional_properties["icemirror.cursor"] for s in lab.mirror.snapshots() if s.summary
    ]
    assert len(set(cursors)) == len(cursors), "a slice was committed twice"
    _check_no_file_was_added_twice(lab)


def _damage(lab: MirroredWorld) -> None:
    root = read_root(lab.mirror.io, lab.mirror.properties[PROPERTY_INDEX_ROOT])
    lab.mirror.io.delete(root.segments[-1].path)


def _compact(lab: MirroredWorld) -> None:
    lab.mirror.overwrite(lab.mirror.scan().to_arrow())


@pytest.mark.parametrize(
    ("point", "before"),
    [("segments-rebuilt", _damage), ("foreign-writes-indexed", _compact), ("index-merged", None)],
)
def test_killed_index_repair_is_completed_by_the_next_merge(
    tmp_path: Path, point: str, before: Callable[[MirroredWorld], None] | None
) -> None:
    """Covers damaged segments, foreign writes, and merges of index runs."""
    schedule = Schedule(seed=9, key="int", columns=("text", "amount"))
    lab = MirroredWorld.make(tmp_path, schedule, InProcessEngine(), use_duckdb=False)
    lab.world.commit_many(2)
    assert _merge(lab, None) == 0
    if before:
        before(lab)
    exit_code = 0
    for _ in range(_MAX_MERGES):
        lab.world.commit_next()
        exit_code = _merge(lab, point)
        if exit_code:
            break
    assert exit_code == -signal.SIGKILL, f"{point} was not reached"
    assert _merge(lab, None) == 0
    assert lab.world.verdict(lab.mirror).equal
    _check_no_file_was_added_twice(lab)


def _check_no_file_was_added_twice(lab: MirroredWorld) -> None:
    added: list[DeleteKey] = []
    for snapshot in lab.mirror.snapshots():
        for manifest in list_manifests(lab.mirror.io, snapshot.manifest_list):
            if manifest.added_snapshot_id == snapshot.snapshot_id:
                entries = read_manifest_entries(lab.mirror.io, manifest)
                added += [
                    delete_key(entry.data_file)
                    for entry in entries
                    if entry.snapshot_id == snapshot.snapshot_id
                ]
    assert len(set(added)) == len(added)
